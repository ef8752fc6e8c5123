//go:build race

package see_test

// raced says that the race detector watches, which makes each name take ten times as long.
const raced = true
