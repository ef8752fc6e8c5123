package gabionredis

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// repeatable reports whether a command may come twice.
func (h *hook) repeatable(cmd redis.Cmder) bool {
	name := cmd.Name()
	if len(h.commands) > 0 {
		if safe, ok := h.commands[name]; ok {
			return safe
		}
	}
	if cmd.NoRetry() { // it writes its answer to the caller's io.Writer
		return false
	}
	switch kinds[name] {
	case reads, same:
		return true
	case frames:
		return true // around the commands of a transaction, which count
	case plainSet:
		return !says(cmd.Args(), 3, "nx", "xx", "get", "ifeq", "ifne", "ifdeq", "ifdne")
	case plainExpire:
		return !says(cmd.Args(), 3, "nx", "xx", "gt", "lt")
	case readsUnlessStored:
		return !says(cmd.Args(), 2, "store", "storedist")
	case waitsIfTold:
		return name == "xread"
	case scripts:
		return says(cmd.Args(), 1, "load", "exists") && len(cmd.Args()) > 1
	}
	return false
}

// passes reports whether a command goes by the dependency: it waits at the server, or belongs
// to the connection.
func passes(cmd redis.Cmder) bool {
	switch kinds[cmd.Name()] {
	case waits, connection:
		return true
	case waitsIfTold:
		return says(cmd.Args(), 1, "block")
	}
	return false
}

// says reports whether one of the words is among the arguments from the n-th on.
func says(args []any, n int, words ...string) bool {
	for _, arg := range args[min(n, len(args)):] {
		text, ok := arg.(string)
		if !ok {
			continue
		}
		for _, word := range words {
			if strings.EqualFold(text, word) {
				return true
			}
		}
	}
	return false
}

type kind uint8

const (
	counts            kind = iota // everything else: its effect or its answer is another one the second time
	reads                         // changes nothing
	readsUnlessStored             // reads, or stores what it found
	waitsIfTold                   // reads, or waits with BLOCK
	same                          // leaves the same state, and answers the same
	plainSet                      // the same without a condition, and unless it answers what was there
	plainExpire                   // the same without a condition
	scripts                       // SCRIPT: loading one twice is loading it once
	frames                        // MULTI and EXEC
	waits                         // waits at the server for others
	connection                    // is about the connection
)

// kinds is the reviewed table. A command that is not in it is repeated only if it provably
// did nothing. XREAD and XREADGROUP wait with BLOCK; XREADGROUP also takes messages, which
// a repetition of it would not get again, so that without BLOCK it is no read.
var kinds = table(map[kind]string{
	reads: `get mget strlen getrange substr getbit bitcount bitpos bitfield_ro lcs exists type ttl pttl expiretime pexpiretime
		keys scan randomkey dbsize dump object memory
		hget hmget hgetall hlen hkeys hvals hexists hstrlen hrandfield hscan httl hpttl hexpiretime hpexpiretime
		llen lrange lindex lpos scard sismember smismember smembers srandmember sinter sunion sdiff sintercard sscan
		zscore zmscore zcard zcount zlexcount zrange zrangebyscore zrangebylex zrevrange zrevrangebyscore zrevrangebylex
		zrank zrevrank zrandmember zscan zdiff zinter zunion zintercard
		xrange xrevrange xlen xpending xinfo geodist geohash geopos geosearch georadius_ro georadiusbymember_ro
		sort_ro eval_ro evalsha_ro fcall_ro ping echo time info lastsave pubsub command
		json.get json.mget json.type json.strlen json.arrlen json.objkeys json.objlen ft.search ft.aggregate ft.info`,
	readsUnlessStored: "sort georadius georadiusbymember",
	waitsIfTold:       "xread xreadgroup",
	same:              "setex psetex mset setrange hmset lset getex touch watch unwatch",
	plainSet:          "set",
	plainExpire:       "expire pexpire expireat pexpireat",
	scripts:           "script",
	frames:            "multi exec",
	waits: `blpop brpop brpoplpush blmove blmpop bzpopmin bzpopmax bzmpop wait waitaof
		subscribe psubscribe ssubscribe unsubscribe punsubscribe sunsubscribe monitor sync psync`,
	connection: "hello auth select client readonly readwrite quit reset asking discard",
})

func table(groups map[kind]string) map[string]kind {
	t := map[string]kind{}
	for k, names := range groups {
		for name := range strings.FieldsSeq(names) {
			t[name] = k
		}
	}
	return t
}
