package idempotency

import (
	"strings"
	"testing"
)

// Parameters of a quoted key have no meaning: the same key, with and without.
func TestAQuotedKeyAndABareOneAreTheSame(t *testing.T) {
	r := newRig(t, Config{}, answer(201, "done"))
	first := r.send(post(`"abc";v=1`, "x"))
	r.wantReplay(first, r.send(post("abc", "x")))
	if got := first.Header().Get(headerKey); got != `"abc";v=1` {
		t.Errorf("echoed %s", got)
	}
}

func TestTheErrorOfAKeyDoesNotRepeatIt(t *testing.T) {
	if key, err := ParseKey("secret secret"); err == nil || key != "" || strings.Contains(err.Error(), "secret") {
		t.Errorf("%q, %v", key, err)
	}
}
