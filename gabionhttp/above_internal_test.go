package gabionhttp

import (
	"net/http"
	"testing"
)

func TestWhatAnSDKSaysOfItsRepetitions(t *testing.T) {
	for _, c := range []struct {
		fact, name, value string
		repeated          bool
	}{
		{"says nothing", "Accept", "*/*", false},
		{"the first", "X-Stainless-Retry-Count", "0", false},
		{"the second", "X-Stainless-Retry-Count", "1", true},
		{"no number", "X-Stainless-Retry-Count", "one", false},
		{"nothing", "X-Stainless-Retry-Count", "", false},
		{"AWS, the first", "Amz-Sdk-Request", "attempt=1; max=3", false},
		{"AWS, the second", "Amz-Sdk-Request", "attempt=2; max=3", true},
		{"AWS, another number", "Amz-Sdk-Request", "max=3", false},
		{"AWS, in another place", "Amz-Sdk-Request", "ttl=20260101T000000Z; attempt=2; max=3", true},
		{"AWS, no number", "Amz-Sdk-Request", "attempt=; max=3", false},
	} {
		h := http.Header{c.name: {c.value}}
		if got := repeatedAbove(h); got != c.repeated {
			t.Errorf("%s: got %v", c.fact, got)
		}
	}
}

func TestARequestOfNoSDKCostsNoAllocationForThat(t *testing.T) {
	h := http.Header{"Accept": {"*/*"}}
	if n := testing.AllocsPerRun(100, func() { repeatedAbove(h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
