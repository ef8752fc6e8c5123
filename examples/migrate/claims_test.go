package main

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/gabion-go/gabion/examples/migrate/shop"
)

// The situations about which the guides say something in words.
const (
	twice   = "A GET fails twice with 503, then works"
	lost    = "A POST without a key: the answer is lost"
	keyed   = "A POST with a key: the answer is lost"
	seconds = "503 with `Retry-After: 2`"
	date    = "503 with a Retry-After that is a date in 2 s"
	hour    = "503 with `Retry-After: 3600`"
	never   = "The shop never answers"
	refused = "100 calls, one after the other, all answered 503"
	quick   = "After 20 s of nothing but 503: the quickest of ten calls"
	last    = "Every attempt is answered with 503"
	each    = "20 GETs, one after the other, each answered 503 once"
	missing = "60 answers of 404, then the shop is asked once more"
	gaveUp  = "30 callers give up after 50 ms, then the shop is asked once more"
	atOnce  = "20 calls at once, each takes 300 ms"
	tenth   = "One answer in ten is 503 for half a minute, 5 calls a second"
	half    = "Half of the answers are 503 for half a minute, 5 calls a second"
	down    = "All answers are 503 for half a minute, 5 calls a second"
)

// said is what the guides say of the other libraries.
var said = map[string]map[string]string{
	"failsafe-go": {
		twice: "answered, 3 attempts", lost: "answered, charged 2 times", keyed: "answered, charged once",
		seconds: "comes back too early at times", date: "comes back too early", hour: "waits for an hour",
		last: "fails, without the last answer", each: "10 answered, over 11 connections",
		missing: "answered", gaveUp: "the shop is not asked", quick: "takes 0.3 s",
	},
	"gobreaker-backoff": {
		twice: "answered, 3 attempts", lost: "answered, charged 2 times", keyed: "answered, charged once",
		seconds: "never comes back too early", date: "comes back too early", hour: "fails at once",
		last: "the caller can read the last answer", missing: "the shop is not asked", gaveUp: "the shop is not asked", quick: "takes no time",
	},
	"go-retryablehttp": {
		twice: "answered, 3 attempts", lost: "answered, charged 2 times", keyed: "answered, charged once",
		seconds: "never comes back too early", date: "never comes back too early", hour: "waits for an hour",
		last: "fails, without the last answer", each: "20 answered, over 1 connection",
		missing: "answered", gaveUp: "answered", down: "3.0 attempts a call, back within 1 s",
	},
	// All of them, since this one is asked again when the machine was too slow.
	"hystrix": {
		twice: "the fallback answers, 1 attempt", lost: "fails, charged once", keyed: "fails, charged once",
		seconds: "the fallback answers at once", date: "the fallback answers at once", last: "the fallback answers",
		never: "the fallback answers within 2 s, 1 attempt", each: "0 answered, over 1 connection",
		missing: "the shop is not asked", gaveUp: "answered", atOnce: "10 answered", refused: "0.2 attempts a call",
	},
}

// promised is what holds after every migration, whatever was before.
var promised = map[string]string{
	twice: "answered, 3 attempts", lost: "fails, charged once", keyed: "answered, charged once",
	seconds: "never comes back too early", date: "never comes back too early", hour: "fails at once",
	last: "the caller can read the last answer", each: "20 answered, over 1 connection",
	missing: "answered", gaveUp: "answered", atOnce: "20 answered",
	tenth: "100 % answered, 1.1 attempts a call", half: "85 % answered, 1.6 attempts a call",
	down: "0.2 attempts a call, back within 1 s", quick: "takes no time",
}

// withoutRetry is the same of hystrix, whose program does not retry, has a fallback and
// makes ten calls at a time.
var withoutRetry = map[string]string{
	twice: "the fallback answers, 1 attempt", lost: "fails, charged once", keyed: "fails, charged once",
	seconds: "the fallback answers at once", date: "the fallback answers at once", hour: "the fallback answers at once",
	last: "the fallback answers", each: "0 answered, over 1 connection",
	missing: "answered", gaveUp: "answered", atOnce: "10 answered",
	tenth: "90 % answered, 1.0 attempts a call", half: "55 % answered, 1.0 attempts a call",
	down: "0.2 attempts a call, back within 1 s", quick: "takes no time",
}

// TestMigrations puts all questions to all programs, and compares what they say with what
// the guides say: in words, as above, and in their tables.
func TestMigrations(t *testing.T) {
	names := map[string]bool{}
	for _, q := range shop.Questions {
		names[q.Name] = true
	}
	for name := range promised {
		if !names[name] {
			t.Errorf("no question is named %s", name)
		}
	}
	all := make([][]row, len(migrations))
	t.Run("all", func(t *testing.T) {
		for i, m := range migrations {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				all[i] = m.measure(t)
				m.check(t, all[i])
				m.compareTable(t, all[i])
			})
		}
	})
	some := slices.ContainsFunc(all, func(rows []row) bool { return rows == nil }) // by -run
	if !t.Failed() && !some {
		compareAll(t, all)
	}
}

// check compares what the programs said with the words of the guides.
func (m migration) check(t *testing.T, rows []row) {
	want := promised
	if m.name == "hystrix" {
		want = withoutRetry
	}
	for _, r := range rows {
		if w := said[m.name][r.name]; w != "" && !alike(r.before, w) {
			t.Errorf("before: %s: %s, want %s", r.name, r.before, w)
		}
		if w := want[r.name]; w != "" && !alike(r.after, w) {
			t.Errorf("after: %s: %s, want %s", r.name, r.after, w)
		}
	}
}

type row struct{ name, before, after string }

// measure asks both programs everything. Those whose before does not run here differ in
// their policies alone, and are spared the questions that take minutes.
func (m migration) measure(t *testing.T) (rows []row) {
	for _, q := range shop.Questions {
		if m.before == nil && q.Long && q.Name != hour && q.Name != down {
			continue
		}
		rows = append(rows, row{q.Name, m.askBefore(t, q, said[m.name][q.Name]), m.askAfter(t, q)})
	}
	return rows
}

var number = regexp.MustCompile(`\d+(\.\d+)?( s\b| %)?`)

// alike compares what two runs said. Counts must be the same. Jitter moves shares by some
// points, times by a second, and loads by two tenths.
func alike(a, b string) bool {
	if number.ReplaceAllString(a, "#$2") != number.ReplaceAllString(b, "#$2") {
		return false
	}
	these, those := number.FindAllStringSubmatch(a, -1), number.FindAllStringSubmatch(b, -1)
	for i := range these {
		allowed := 0.0
		switch {
		case these[i][2] == " s":
			allowed = 1
		case these[i][2] == " %":
			allowed = 10
		case these[i][1] != "":
			allowed = 0.2
		}
		if math.Abs(value(these[i])-value(those[i])) > allowed+1e-9 {
			return false
		}
	}
	return true
}

func value(match []string) float64 {
	v, _ := strconv.ParseFloat(match[0][:len(match[0])-len(match[2])], 64)
	return v
}

func TestAlike(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"fails, charged once", "fails, charged once", true},
		{"answered, 3 attempts", "answered, 2 attempts", false},
		{"65 % answered, 1.2 attempts a call", "60 % answered, 1.1 attempts a call", true},
		{"65 % answered, 1.2 attempts a call", "50 % answered, 1.1 attempts a call", false},
		{"3.0 attempts a call, back within 1 s", "3.0 attempts a call, back within 2 s", true},
		{"3.0 attempts a call, back within 1 s", "2.7 attempts a call, back within 1 s", false},
		{"fails within 4 s", "fails within 9 s", false},
		{"refused", "answered", false},
	} {
		if alike(c.a, c.b) != c.want {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.want)
		}
	}
}
