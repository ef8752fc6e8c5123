package config

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// What a file can say about the wait before a retry.
func TestBackoffOfAFile(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"{}":               time.Second, // the default: nothing was said
		"{kind: constant}": time.Second,
		"{cap: 300ms}":     300 * time.Millisecond,
		"off":              policy.Off,
		"{base: off}":      policy.Off,
	} {
		f, err := Parse("f", []byte("version: 1\ndependencies: {a: {retry: {backoff: "+text+"}}}\n"))
		if err != nil {
			t.Fatalf("backoff: %s: %v", text, err)
		}
		if got := f.Policies["a"].Resolved().Retry.Backoff.Base; got != want {
			t.Errorf("backoff: %s has the base %v, want %v", text, got, want)
		}
		again, err := Parse("f", []byte(view{f}.YAML(false)))
		if err != nil || again.Policies["a"].Resolved().Retry.Backoff != f.Policies["a"].Resolved().Retry.Backoff {
			t.Errorf("backoff: %s, printed and read again, is %v, %v", text, again.Policies["a"].Retry.Backoff, err)
		}
	}
}
