// Package natsstore keeps idempotency records in a key-value bucket of NATS
// JetStream, one message a key.
//
// Every change is a publish that names the revision it replaces, so the server lets
// one of several through. The first claim of a key and each change by the run that
// holds it are one round trip. A claim of a key that has a record costs a read more,
// and one that takes it over a write more.
//
// # What the servers have to be set to
//
// JetStream acknowledges before it syncs, unless sync_interval is always: a power
// cut then takes up to two minutes of acknowledged records with it, and keys run
// again. A client can't see the setting. [Options].SyncAlways declares it,
// [Options].System has it checked; without either the store calls itself not
// durable and warns. In a cluster a bucket has three replicas.
//
// Connect with nats.ReconnectBufSize(-1). By default nats.go keeps what is published
// while it is not connected and sends it later. That breaks no guarantee, as the
// revision has to match still, but a claim that arrives after its caller gave up
// leaves a run that never happens: under Hold the key's outcome is then unknown.
//
// # Time
//
// Leases are judged by the servers' clock, never by the clients'. The store reads it
// with a stream info every ten seconds and counts on with the process's monotonic
// clock; what it can't know, the time the answer took and a thousandth for drift, it
// gives to the holder: a lease is written as late as it may be and judged as early.
// A cluster has a clock for each server, so there [Options].Skew is added.
//
// # Forgetting
//
// The bucket's TTL counts from a record's last write. A claim whose lease and
// retention don't fit in is refused, because its record could vanish before its
// time. A run that was lost under Hold and that no claim or sweep finds is gone
// after the TTL, which is a retention after its lease at least.
//
// There is no index: [Store.Sweep] reads the headers of a few thousand records
// onwards from where the last call ended, so that a bucket of a million takes some
// 250 calls. What it deletes the TTL would delete too. What it alone does is mark
// lost runs before anybody asks.
//
// Reads are answered by the stream's leader. One that was just deposed and has not
// noticed may answer with an old record for some seconds: nothing is written on its
// word, since the revision no longer matches; at worst a holder gets ErrLeaseLost and
// still had its lease.
package natsstore
