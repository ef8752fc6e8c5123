package scenario

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// physical is a scenario whose call and service have more than policies decide about.
func physical(call, service, more string) string {
	return fmt.Sprintf(`version: 1
title: x
duration: 30s
clients:
  shop: {count: 2, rate: 10/s, calls: [{to: db%s}]}
services:
  db: {time: 10ms%s}
policies:
  db: {safe: true, timeout: {call: 3s, attempt: 1s}}
%s`, call, service, more)
}

func TestMistakesOfCachesAndPauses(t *testing.T) {
	const down = "faults:\n  - {kind: cache_down, service: db, at: 10s, for: 5s}\n"
	for _, c := range []struct{ call, service, more, at, says string }{
		{", cache: {zipf: 0.9}", "", "", "5:49", "cache.keys is missing"},
		{", cache: {keys: 2000000}", "", "", "5:63", "more than a million"},
		{", cache: {keys: 10, size: 11}", "", "", "5:73", "size is more than there are keys"},
		{", connections: {idle: 1m}", "", "", "5:49", "connections.size is missing"},
		{"", "", "assert:\n  - opened(db) <= 1\n", "11:5", "has no metric"},
		{"", "", down, "11:12", "cache_down means nothing while no call of db has a cache"},
		{"", "", "assert:\n  - hits(db) >= 50%\n", "11:5", "has no metric"},
		{"", ", pauses: {every: 10s}", "", "7:20", "pauses.for is missing"},
		{"", ", pauses: {for: 10ms}", "", "7:20", "pauses.every is missing"},
		{"", ", pauses: {every: 10us, for: 10ms}", "", "7:20", "less than a millisecond"},
	} {
		_, err := Parse("x", []byte(physical(c.call, c.service, c.more)))
		var found Findings
		if !errors.As(err, &found) {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		at := fmt.Sprintf("%d:%d", found[0].Line, found[0].Col)
		if text := found[0].Reason + ", " + found[0].Proposal; at != c.at || !strings.Contains(text, c.says) {
			t.Errorf("%s%s: at %s: %s, want at %s: %s", c.call, c.service, at, text, c.at, c.says)
		}
	}
	queued := strings.Replace(physical(", cache: {keys: 10}", "", "  shop: {timeout: {call: 3s, attempt: 1s}}\n"), "rate: 10/s", "rate: 10/s, queue: {workers: 1}", 1)
	if _, err := Parse("x", []byte(queued)); err == nil || !strings.Contains(err.Error(), "its calls can't have a cache") {
		t.Error(err)
	}
	if _, err := Parse("x", []byte(physical(", cache: {keys: 10, ttl: 1s}", ", pauses: {every: 1s, for: 10ms}", down))); err != nil {
		t.Error(err)
	}
}

// The library's scenarios hold for the reason that they name: what it is without, it does not hold.
func TestWhatTheStoriesNameIsWhatHelps(t *testing.T) {
	for _, c := range []struct{ name, has, without string }{
		{"cold-cache", "last: off}", "last: off}, breaker: off"},
		{"gc-pauses", ", hedge: {delay: 20ms, max: 1}", ""},
		{"pool-exhaustion", "attempt: 300ms", "attempt: 300ms, last: 300ms, strict: true"},
	} {
		text, err := Text(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.has) {
			t.Fatalf("%s does not say %q", c.name, c.has)
		}
		holds := func(text string) (broken []string) {
			for _, a := range study(t, text, Options{Replications: 2, Alone: true}).Sides[0].Asserts {
				if a.Breaks.Value > 0 {
					broken = append(broken, a.Text)
				}
			}
			return broken
		}
		if broken := holds(string(text)); len(broken) > 0 {
			t.Errorf("%s: %q", c.name, broken)
		}
		if broken := holds(strings.Replace(string(text), c.has, c.without, 1)); len(broken) == 0 {
			t.Errorf("%s: all holds without what helps", c.name)
		}
	}
}
