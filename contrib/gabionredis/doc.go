// Package gabionredis calls Redis and Valkey with go-redis through a gabion.Dependency.
//
// [Use] adds a hook to a client. Each command is then a call of the dependency, and each
// pipeline and each transaction is one. What is not idempotent, such as INCR, is repeated
// only if it provably did nothing, and otherwise the error says that it may have happened.
// What only reads, or leaves the same state and answers the same when it comes twice, is
// repeated: see [Idempotent].
//
// redis.Nil and redis.TxFailedErr are answers and returned as they are. All other errors are
// below a *gabion.Error, where errors.As and redis.HasErrorPrefix find them.
//
// What waits at the server for others passes by without a slot, a timeout or a breaker:
// blocking commands such as BLPOP and XREAD with BLOCK, and subscriptions. So does what
// go-redis sends to set a connection up.
package gabionredis
