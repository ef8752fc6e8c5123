package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
)

// The scripts know keys, bytes and times; what a record is they leave to package
// idempotency. Each reads the clock and the key in one step and returns both,
// unless it wrote: then the time alone. Times are microseconds, which a Lua number
// holds exactly until the year 2255.
const (
	luaClock = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
`

	// ARGV: the record of a claim made at time zero; when it is due and when it may
	// be forgotten, counted from now.
	luaClaim = luaClock + `
local old = redis.call('GET', KEYS[1])
if old then return {now, old} end
local due = math.min(now + ARGV[2], 9007199254740991)
redis.call('SET', KEYS[1], string.format('%016.0f%016.0f', due, now) .. ARGV[1], 'PXAT', string.format('%.0f', math.ceil((now + ARGV[3]) / 1000)))
return {now}`

	// ARGV: what was read, nothing if there was no key; what to write, nothing to
	// delete; when it may be forgotten, in milliseconds; the first and the last
	// moment at which the decision holds.
	luaSwap = luaClock + `
local old = redis.call('GET', KEYS[1]) or ''
if old ~= ARGV[1] or now < tonumber(ARGV[4]) or now > tonumber(ARGV[5]) then return {now, old} end
if ARGV[2] == '' then
	redis.call('DEL', KEYS[1])
else
	redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[3])
end
return {now}`

	// A script, not GET: go-redis may send that to a replica or answer it from a
	// cache.
	luaLook = luaClock + `return {now, redis.call('GET', KEYS[1]) or ''}`
)

var (
	scriptClaim = redis.NewScript(luaClaim)
	scriptSwap  = redis.NewScript(luaSwap)
	scriptLook  = redis.NewScript(luaLook)
)

// maxMicros is the largest time that the scripts count with.
const maxMicros = 1<<53 - 1

// A sight is what a script saw, or what it left.
type sight struct {
	now   idempotency.Moment
	value string // nothing if there is no key
	wrote bool
}

// run runs a script on a record's key. A script that wrote does not tell the value.
func (s *Store) run(ctx context.Context, script *redis.Script, key string, args ...any) (sight, error) {
	reply, err := script.Run(ctx, s.client, []string{key}, args...).Slice()
	if err != nil {
		return sight{}, refusal(err)
	}
	if len(reply) == 0 {
		return sight{}, errReply
	}
	micros, ok := reply[0].(int64)
	saw := sight{now: idempotency.Moment(micros * 1000), wrote: len(reply) == 1}
	if ok && !saw.wrote {
		saw.value, ok = reply[1].(string)
	}
	if !ok {
		return sight{}, errReply
	}
	s.heard.Store(int64(saw.now))
	return saw, nil
}

var errReply = errors.New("redisstore: a script did not answer as it does")

// claim takes the key if it is missing.
func (s *Store) claim(ctx context.Context, key string, c idempotency.Claim) (sight, error) {
	r := claimed(c, 0)
	body, err := r.MarshalBinary()
	if err != nil {
		return sight{}, err
	}
	due := ceil(r.Due())
	saw, err := s.run(ctx, scriptClaim, key, body, due, ceil(forgotten(&r)))
	if saw.wrote {
		saw.value = head(min(floor(saw.now)+due, maxMicros), floor(saw.now)) + string(body)
	}
	return saw, err
}

// swap writes next onto what was read, if it is still there and the server's clock
// is between first and last.
func (s *Store) swap(ctx context.Context, key, old string, next idempotency.Record, first, last idempotency.Moment) (sight, error) {
	value, err := written(next)
	if err != nil {
		return sight{}, err
	}
	saw, err := s.run(ctx, scriptSwap, key, old, value, millis(forgotten(&next)), floor(first), floor(last))
	if saw.wrote {
		saw.value = value
	}
	return saw, err
}

// refusal gives the server's own words the names that package idempotency has for
// them. Everything else may have been carried out.
func refusal(err error) error {
	switch {
	case redis.IsOOMError(err):
		return fmt.Errorf("redisstore: %w: %w", idempotency.ErrFull, err)
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("redisstore: %w: %w", idempotency.ErrUnreadable, err)
	}
	return fmt.Errorf("redisstore: %w", err)
}

// floor and ceil are a moment in the scripts' microseconds.
func floor(t idempotency.Moment) int64 { return max(0, min(int64(t)/1000, maxMicros)) }

func ceil(t idempotency.Moment) int64 {
	if t > math.MaxInt64-999 {
		return maxMicros
	}
	return floor(t + 999)
}

// millis is a moment as PXAT takes it, never earlier than it is.
func millis(t idempotency.Moment) string { return strconv.FormatInt((ceil(t)+999)/1000, 10) }
