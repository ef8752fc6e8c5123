// Package redisfleet keeps what a fleet shares in Redis 6 or later, or in Valkey, through go-redis.
//
// A batch is one script: it is carried out as a whole or not at all, in one round trip, and the
// time is the server's. All that a fleet has is one hash, so it is in one slot of a cluster, and
// another fleet is in another.
//
// # What the server must have
//
// The user needs no more than
//
//	~gabion:fleet:* +@connection +eval +evalsha +time +hget +hset +hdel +hgetall
//
// An operator who only looks needs the same without hset and hdel, and is refused what changes
// something. maxmemory-policy should be noeviction, or one of the volatile policies, which leave the hash alone
// because it has no end.
//
// # When the server fails
//
// Replicas follow asynchronously, so a fail-over can lose the last writes. Then shares that were
// granted in them are granted again, and until they end both are in force: package fleet says by
// how much that exceeds a limit. Versions are no smaller than the server's time in microseconds, so they are
// not used a second time after lost writes, unless the new master's clock is behind by more than the fail-over took.
//
// go-redis sends a script again after a broken connection, up to MaxRetries times. A batch has a
// number of its own by which the script finds that it was carried out already.
//
// The client should have ContextTimeoutEnabled, or a batch may outlast its context.
package redisfleet
