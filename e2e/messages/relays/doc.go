// Package relays tests package outbox with real databases, a real broker and relays that are
// killed, stopped and replaced.
package relays
