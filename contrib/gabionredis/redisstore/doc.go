// Package redisstore keeps idempotency records in Redis 7 or later, or in Valkey,
// through go-redis.
//
// # What it promises, and what the server must
//
// Each record is one key, decided by one compare-and-set script, by the server's
// clock alone: the clocks of processes need not agree, and this package reads none.
// What that is worth depends on the server's settings. [New] looks at them and puts
// what is wanting into Caps, where a handler finds and tells it:
//
//   - appendonly yes, appendfsync always and no-appendfsync-on-rewrite no make it
//     durable: an answer leaves after its record reached the disk. With anything
//     less a crash forgets claims of the last moments, and their work runs twice.
//   - maxmemory-policy noeviction. Any other drops records to make room; this one
//     refuses new ones, which is idempotency.ErrFull.
//   - Replicas follow asynchronously, so a failover can forget a claim that was
//     acknowledged. Durable does not speak of that. min-replicas-to-write makes it
//     rarer, as WAIT would, which is not used here because neither prevents it. Where
//     that is too much, use a SQL database.
//   - The server's clock should be kept by NTP without jumps. Set back by more than a
//     minute it can repeat the token of a key that had expired.
//   - The client should have ContextTimeoutEnabled, or a call may outlast its
//     context, and a heartbeat its lease.
//
// The server's user needs no more than
//
//	~gabion:idempotency:* +@connection +eval +evalsha +get +set +del +time +info +config|get +scan +getrange
//
// and without config|get it is unknown whether the store is durable.
//
// # What it costs
//
// A claim of a new key, a replay, and a refusal that changes nothing are one round
// trip. So is the end of a run in the process that claimed it, if that has heard from
// the server within the last second and the last thousandth of the retention, from
// which moment the retention then counts. Everything else is two: it reads, decides
// and writes.
//
// # Errors
//
// A timeout or a broken connection is returned as it is: the change may have been
// made. go-redis itself sends a command again after such an error, up to MaxRetries
// times. That is safe: a script writes only onto what its caller has read, so what
// was carried out already is found instead of being done twice.
//
// # What is stored
//
// The key's name is a prefix and the ID in hex, so no raw key is there, and each key
// finds its own slot of a cluster. The value is the time at which a sweeper is due,
// the time of the claim, and the record as package idempotency writes it. The
// server's own expiry only collects garbage, a minute after the record has expired
// by the server's clock, and for a running record a retention after its lease: as
// if a sweeper had come at the end of the lease. So a store that is not swept
// doesn't grow, and the state machine is nowhere in Lua.
//
// It is tested with Redis 7.0, alone and as a cluster, and with Valkey 8.0. A redis.Ring
// is refused: it sends keys elsewhere when a server is down, where their records are not,
// so that a claim would be granted twice.
package redisstore
