// Package natsfleet keeps what a fleet shares in a key-value bucket of NATS JetStream, server 2.11 or
// later.
//
// The requests of a batch are out at the same time. A batch with a swap waits for that first, and a list
// asks for the names first: each is a round trip more. The time is that of the bucket's leader.
//
// # What is not atomic
//
// The swap is: the server lets one of several through. The other puts of a batch are made one by one, after the
// swap. If the connection breaks in between, some may be missing, and the batch ends with an error. What
// a batch reads is not of one moment either: each key is as it was while the batch was on its way, and never older than
// what the batch put or lost to. Package fleet needs no more.
//
// Reads are answered by the stream's leader. One that was just deposed and has not noticed may
// answer with old values for some seconds. A swap on the word of those fails.
//
// # Time
//
// It comes with the answer to a stream info. Each server of a cluster has a clock of its own, so after
// another was elected leader the time may go on from a little earlier or later. Keep them by NTP, within the skew that
// package fleet allows for.
//
// What lasts for some time has that in a header. It is passed over from then on, counted from when the server
// stored it, and deleted when it is listed. The bucket must have no TTL of its own, as what lasts for
// ever would end by it.
//
// # When the server fails
//
// JetStream acknowledges before it syncs, unless sync_interval is always. A power cut of a single server can
// lose the last writes. Then shares that were granted in them are granted again, and until they end
// both are in force: package fleet says by how much that exceeds a limit. In a cluster, give the bucket
// three replicas.
//
// Connect with nats.ReconnectBufSize(-1): otherwise what is published while the connection is down is sent later.
//
// The user needs to publish to $KV.BUCKET.> and to the subjects of $JS.API for STREAM.INFO, STREAM.MSG.GET,
// STREAM.MSG.DELETE and STREAM.PURGE of the bucket's stream, which is KV_BUCKET. Who only looks needs STREAM.INFO
// and STREAM.MSG.GET.
package natsfleet
