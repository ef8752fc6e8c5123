package suggest

import (
	"strings"
	"testing"
)

func TestSlipsPluralsAndSeparatorsAreForgiven(t *testing.T) {
	keys := []string{
		"timeout", "retry", "hedge", "pace", "throttle", "breaker", "bulkhead", "rate_limit", "http", "trust", "safe", "key",
		"max_after", "idempotent-write", "demo",
	}
	for typed, want := range map[string]string{
		"retires": "retry", "retries": "retry", "retrys": "retry", "rety": "retry", "hedges": "hedge", "timeouts": "timeout",
		"breakers": "breaker", "keys": "key", "rates": "rate_limit", "tires": "", "https": "http",
		"MaxAfter": "max_after", "max-aftr": "max_after", "ratelimit": "rate_limit", "idempotent_wirte": "idempotent-write",
		"dmeo": "demo", "xyzzy": "", "": "", strings.Repeat("retry", 20): "",
	} {
		if got := Nearest(typed, keys); got != want {
			t.Errorf("%s is taken for %q, want %q", typed, got, want)
		}
	}
	if got := Nearest("retry", nil); got != "" {
		t.Errorf("of no words, %q is the nearest", got)
	}
}

func TestWhatIsLikeNothingGetsTheOtherAnswer(t *testing.T) {
	for typed, want := range map[string]string{"rety": "did you mean retry?", "xyzzy": "there is retry"} {
		if got := For(typed, []string{"retry"}, "there is retry"); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
}

func TestDistanceCountsLetters(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"demo", "demo", 0}, {"demo", "dem", 1}, {"demo", "dmeo", 1}, {"kitten", "sitting", 3}, {"größe", "grösse", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
