// Package stream consumes messages of NATS JetStream by contrib/natsmsg while consumers, brokers
// and networks fail, and counts what came of them.
package stream
