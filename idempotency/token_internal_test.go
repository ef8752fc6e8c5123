package idempotency

import (
	"testing"
	"time"
)

// A record may be swept between two runs, and with it the token of the first. The
// second's must be larger all the same, or the first could still write.
func TestATokenIsLargerThanOneThatWasForgotten(t *testing.T) {
	first := nextToken(0, Moment(time.Hour))
	for range 10 {
		first = nextToken(first, Moment(time.Hour))
	}
	if again := nextToken(0, Moment(time.Hour+time.Second)); again <= first {
		t.Errorf("token %d comes after %d", again, first)
	}
}
