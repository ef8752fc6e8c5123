// Package deadlettertest checks stores of dead letters: a store that passes [Run] does what
// deadletter.Store says. It is for those who write stores.
package deadlettertest
