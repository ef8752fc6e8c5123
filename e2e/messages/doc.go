// Package messages tests what gabion has for messages between real databases and real
// brokers: that nothing is lost and nothing happens twice, whatever is killed.
package messages
