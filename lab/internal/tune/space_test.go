package tune

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
)

func parsed(t *testing.T, dependency string) *config.File {
	t.Helper()
	f, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  db: "+dependency+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestKeysAndTheirValues(t *testing.T) {
	for _, c := range []struct {
		fact, dependency, vary, values string
		home                           int
	}{
		{"the usual values of a key, with today's among them", "{retry: {attempts: 8}}", "retry.attempts", "1 2 3 4 5 6 8", 6},
		{"values are in their order, with today's", "{}", "retry.attempts=1,5,2", "1 2 3 5", 2},
		{"as much in other words is today's", "{breaker: {open: 2s}}", "breaker.open=1s,2000ms,4s", "1s 2s 4s", 1},
		{"a range", "{}", "breaker.open=1s..4s", "1s 1.4s 1.9s 2s 2.3s 2.7s 3.1s 3.6s 4s", 3},
		{"around what it is", "{timeout: {attempt: 1s}}", "timeout.attempt", "250ms 350ms 500ms 700ms 1s 1.4s 2s 2.8s 4s", 4},
		{"as far as it fits", "{timeout: {call: 3s, attempt: 2s}}", "timeout.attempt", "500ms 700ms 1s 1.4s 2s 2.8s", 4},
		{"whole numbers stay whole", "{bulkhead: {limit: 10}}", "bulkhead.limit", "3 4 5 7 10 14 20 28 40", 4},
		{"words", "{}", "retry.backoff.kind=equal,full,constant", "full equal constant", 0},
		{"percentages", "{}", "retry.budget.ratio=10%,30%,100%", "10% 30% 100%", 1},
	} {
		d, notes, err := Space(parsed(t, c.dependency), "db", []string{c.vary})
		if err != nil || len(notes) > 0 || len(d) != 1 {
			t.Errorf("%s: %v %v", c.fact, err, notes)
			continue
		}
		if got := strings.Join(d[0].Values, " "); got != c.values || d[0].Home != c.home {
			t.Errorf("%s: %s, home %d, not %s, %d", c.fact, got, d[0].Home, c.values, c.home)
		}
	}
}

func TestWhatCannotBeVariedSaysWhy(t *testing.T) {
	for _, c := range []struct{ fact, dependency, vary, says string }{
		{"a slip", "{}", "retry.atempts", "did you mean retry.attempts?"},
		{"a fact", "{}", "safe=true,false", "is a fact about the dependency"},
		{"facts of HTTP", "{}", "http.replay_limit", "is a fact about the dependency"},
		{"a section", "{}", "breaker", "breaker: is a section"},
		{"no values", "{}", "breaker.open=", "has no values"},
		{"an invalid value", "{}", "breaker.open=1s,soon", "breaker.open=soon"},
		{"a range that falls", "{}", "breaker.open=4s..1s", "the range does not rise"},
		{"one value twice", "{}", "retry.attempts=2,2", "2 is there twice"},
		{"only today's value", "{}", "retry.attempts=3", "no other value is possible"},
		{"a section that is off", "{breaker: off}", "breaker.open", "breaker is off (gabion.yaml:3)"},
		{"a word without values", "{}", "retry.backoff.kind", "has no usual range"},
		{"values of which none fits", "{timeout: {call: 1s, attempt: 500ms}}", "timeout.attempt=2s,3s", "timeout.attempt"},
	} {
		_, _, err := Space(parsed(t, c.dependency), "db", []string{c.vary})
		var wrong *policyfile.SetError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.fact, err)
		}
	}
	if _, _, err := Space(parsed(t, "{}"), "db", []string{"retry.attempts", "retry.attempts=1,2"}); err == nil || !strings.Contains(err.Error(), "is there twice") {
		t.Error(err)
	}
	if _, _, err := Space(parsed(t, "{}"), "db", make([]string, 13)); err == nil || !strings.Contains(err.Error(), "at most 12") {
		t.Error(err)
	}
}

func TestTheUsualKeysAreTheFiveThatAreOn(t *testing.T) {
	d, notes, err := Space(parsed(t, "{}"), "db", nil)
	if err != nil || len(d) != usualCount || len(notes) > 0 {
		t.Errorf("%v %v %v", d, notes, err)
	}
	d, notes, err = Space(parsed(t, "{retry: off, breaker: off}"), "db", nil)
	if err != nil || len(d) != 1 || d[0].Path != "timeout.attempt" || len(notes) != 4 {
		t.Errorf("%v %v %v", d, notes, err)
	}
}

func TestEveryUsualRangeCanBeRead(t *testing.T) {
	f := parsed(t, "{hedge: {max: 1}, throttle: {k: 2}, retry: {backoff: {cap: 10s}}}")
	for _, u := range usual {
		if strings.HasPrefix(u.path, "hedge") {
			continue // has no value today where hedging is off
		}
		if d, _, err := Space(f, "db", []string{u.path}); err != nil || len(d[0].Values) < 3 || !slices.Contains(policyfile.Keys(), u.path) {
			t.Errorf("%s: %v %v", u.path, d, err)
		}
	}
}
