// Package messages tests what gabion has for messages between real databases and real
// brokers: that nothing is lost and nothing happens twice, whatever is killed.
//
// It is a module of its own and never released, so that its dependencies cost
// users of gabion nothing.
package messages
