package lint

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

// A preset with timeouts of one's own is what most people write first. Its waits follow the
// call, and its attempt timeout is no longer than that, so no finding is about numbers that
// they did not write.
func TestPresetsWithOwnTimeoutsBringNoWarning(t *testing.T) {
	for _, name := range policy.PresetNames() {
		for _, call := range []time.Duration{
			300 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 8 * time.Second, 10 * time.Second,
			15 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 11 * time.Minute, 30 * time.Minute,
		} {
			for _, parts := range []time.Duration{0, 1, 2, 3, 4, 8, 20} {
				own := fmt.Sprintf("call: %v", call) // and the preset's attempt timeout
				if parts > 0 {
					attempt := min(call/parts, time.Minute)
					if attempt <= tooShort {
						continue // is warned of whatever the preset
					}
					own += fmt.Sprintf(", attempt: %v", attempt)
				}
				text := fmt.Sprintf("version: 1\ndependencies:\n  d: {preset: %s, timeout: {%s}}\n", name, own)
				f, broken := config.Read("gabion.yaml", []byte(text))
				r := Run([]*config.File{f}, Options{Broken: []config.Findings{broken}})
				for _, g := range r.Findings {
					if g.Severity >= Warning {
						t.Errorf("%s: %s %s", strings.TrimSpace(text), g.Rule.ID, g.Reason)
					}
				}
			}
		}
	}
}

// Written waits stay, and a longer call has the preset's waits.
func TestOnlyAPresetsWaitsFollowTheCall(t *testing.T) {
	for keys, want := range map[string]string{
		"preset: database": "500ms 10s",
		"preset: database, timeout: {call: 3s, attempt: 1s}":                     "50ms 1s",
		"preset: database, timeout: {call: 1m}":                                  "500ms 10s",
		"preset: database, timeout: {call: off, attempt: 2s}":                    "500ms 10s",
		"preset: database, timeout: {call: 3s}, retry: {backoff: {base: 200ms}}": "200ms 10s",
		"preset: database, timeout: {call: 3s}, retry: {attempts: 3}":            "50ms 1s",
		"preset: best-effort, timeout: {call: 300ms, attempt: 150ms}":            "100ms 30s",
		"preset: message-queue, timeout: {call: 66s, attempt: 5s}":               "1s 1m", // a broker waits, between calls
		"preset: external-api, timeout: {call: 20ms, attempt: 10ms}":             "1ms 20ms",
		"timeout: {call: 3s, attempt: 1s}":                                       "1s 30s",
	} {
		f, broken := config.Read("gabion.yaml", []byte("version: 1\ndependencies:\n  d: {"+keys+"}\n"))
		b := f.Policies["d"].Resolved().Retry.Backoff
		if got := policy.FormatDuration(b.Base) + " " + policy.FormatDuration(b.Cap); got != want || len(broken) > 0 {
			t.Errorf("%s: waits of %s, want %s; %v", keys, got, want, broken)
		}
	}
}
