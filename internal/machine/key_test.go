package machine

import (
	"github.com/gabion-go/gabion/policy"
	"testing"
)

func TestWhatBecomesOfAKey(t *testing.T) {
	for _, c := range []struct {
		fact              string
		mode              policy.KeyMode
		idempotent, keyed bool
		want              KeyUse
	}{
		{"nothing said: no key", policy.KeyDeclared, false, false, KeyNone},
		{"idempotent: no key", policy.KeyDeclared, true, false, KeyNone},
		{"the caller's key is sent", policy.KeyDeclared, false, true, KeySent},
		{"also of idempotent work", policy.KeyDeclared, true, true, KeySent},
		{"a missing key is made", policy.KeyMade, false, false, KeyFresh},
		{"but not for idempotent work", policy.KeyMade, true, false, KeyNone},
		{"the caller's key is no other", policy.KeyMade, false, true, KeySent},
		{"a missing key is refused", policy.KeyRequired, false, false, KeyLacking},
		{"but not of idempotent work", policy.KeyRequired, true, false, KeyNone},
		{"the required key is sent", policy.KeyRequired, false, true, KeySent},
	} {
		got := UseKey(c.mode, c.idempotent, c.keyed)
		if got != c.want || got.Carried() != (got == KeySent || got == KeyFresh) {
			t.Errorf("%s: %d, want %d", c.fact, got, c.want)
		}
	}
}

func TestMethodsThatMayBeRepeated(t *testing.T) {
	for _, m := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"} {
		if !IdempotentMethod(m) || !HedgeableMethod(m, false) {
			t.Errorf("%s may be repeated", m)
		}
	}
	for _, m := range []string{"", "POST", "PATCH", "CONNECT", "get", "QUERY"} {
		if IdempotentMethod(m) || HedgeableMethod(m, false) || !HedgeableMethod(m, true) {
			t.Errorf("%q may be repeated only where the policy declares it", m)
		}
	}
}
