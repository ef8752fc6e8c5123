// Package ending lets an adapter end an attempt from inside its work: the context of
// every attempt has an [Ender] under [Key].
package ending

// Key finds the Ender in an attempt's context.
type Key struct{}

// An Ender ends its attempt: whoever works with the attempt's context sees it canceled.
// It may be called from any goroutine, and more than once.
type Ender interface{ End() }
