// Package messages is the overview of a module about messages: what a program does for each message of a broker, and
// what becomes of messages that fail. It has no code of its own.
//
//   - Package consumer handles messages under a policy of gabion. The work runs once for each message, and says whether
//     the message is acknowledged, comes later, or is dead.
//   - Package inbox is what consumer stands on: records of messages in a store of package idempotency.
//   - Package deadletter keeps messages that were given up, and runs them again. Package sqlletters is its store on
//     database/sql, and package letterpage shows it on the live page of package dashboard.
//   - Package outbox sends what a transaction did, if the transaction commits and only then.
//   - Package message has the headers that travel with messages.
//
// Adapters for brokers are modules of their own: contrib/natsmsg for NATS JetStream, contrib/gabionmsg for Watermill.
package messages
