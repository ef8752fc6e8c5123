package replaycmd

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/past"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab"
)

// truth is a world with known parameters: its clients, its service, its faults.
type truth struct {
	name, callers, service, faults, policy string
}

const (
	usualPolicy = "{safe: true, timeout: {call: 2s, attempt: 800ms}}"
	usualDB     = "{time: lognormal 40ms/200ms}"
)

// truths are the worlds that replays are held against.
var truths = []truth{
	{"nothing wrong", "rate: 100/s", usualDB, "", usualPolicy},
	{"errors for half", "rate: 100/s", usualDB, "- {kind: errors, service: db, at: 1m, for: 1m, share: 50%}", usualPolicy},
	{"errors for a few", "rate: 100/s", usualDB, "- {kind: errors, service: db, at: 1m, for: 1m, share: 8%, status: 500}", usualPolicy},
	{"refused", "rate: 100/s", usualDB, "- {kind: down, service: db, at: 1m, for: 45s}", usualPolicy},
	{"black hole", "rate: 60/s", usualDB, "- {kind: black_hole, service: db, at: 1m, for: 30s}", usualPolicy},
	{"latency hump", "rate: 100/s", usualDB, "- {kind: slow, service: db, at: 1m, for: 1m, factor: 4, ramp: 20s}", usualPolicy},
	{"throttled", "rate: 100/s", usualDB, "- {kind: rate_limit, service: db, at: 1m, for: 1m, limit: {rate: 60/s, burst: 10}}", usualPolicy},
	{"rate changes", "rate: 50/s, load: [{at: 1m, times: 3, for: 1m, ramp: 10s}]", usualDB, "", usualPolicy},
	{"resets", "rate: 100/s", usualDB, "- {kind: reset, service: db, at: 1m, for: 40s, share: 30%}", usualPolicy},
	{"flapping", "rate: 100/s", usualDB, "- {kind: down, service: db, at: 1m, for: 5s, every: 20s, until: 2m}", usualPolicy},
	{"mild brown-out", "rate: 100/s", "{workers: 12, queue: 100, time: lognormal 40ms/200ms}", "- {kind: brown_out, service: db, at: 1m, for: 1m, factor: 0.5}", usualPolicy},
	{"brown-out", "rate: 100/s", "{workers: 12, queue: 200, time: lognormal 40ms/200ms}", "- {kind: brown_out, service: db, at: 1m, for: 1m, factor: 0.2}", usualPolicy},
}

// other is the policy of which a replay is asked what it would have done.
const other = "{safe: true, timeout: {call: 2s, attempt: 800ms}, retry: {attempts: 2, backoff: {base: 200ms}}, breaker: off}"

func (w *truth) text(policy string) []byte {
	faults := ""
	if w.faults != "" {
		faults = "faults:\n  " + w.faults + "\n"
	}
	return []byte(fmt.Sprintf("version: 1\ntitle: %s\nduration: 3m\nreplications: 1\nclients:\n  shop: {count: 1, %s, deadline: 2s, calls: [{to: db, network: exp 1ms}]}\nservices:\n  db: %s\n%spolicies:\n  db: %s\n",
		w.name, w.callers, w.service, faults, policy))
}

// run plays a world, and returns its recording if it is asked for.
func (w *truth) run(t testing.TB, policy string, record io.Writer) *lab.Report {
	t.Helper()
	s, err := lab.Parse(w.name, w.text(policy))
	if err != nil {
		t.Fatal(err)
	}
	o := lab.Options{Alone: true}
	if record != nil {
		o.Record = &lab.Recording{Max: 10_000_000, Open: func(int, string) (io.Writer, error) { return record, nil }}
	}
	r, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replayOf makes the scenario of a past in a folder.
func replayOf(t testing.TB, p *past.Past, changes []config.Change) (*world, *lab.Scenario) {
	t.Helper()
	w, err := newWorld(p, changes)
	if err != nil {
		t.Fatal(err)
	}
	r := &request{out: filepath.Join(t.TempDir(), "x.yaml"), stderr: io.Discard}
	s, err := r.scenario(w)
	if err != nil {
		text, _ := os.ReadFile(r.out)
		t.Fatalf("%v\n%s", err, text)
	}
	return w, s
}

func metric(t testing.TB, r *lab.Report, key string) float64 {
	t.Helper()
	m, _, err := r.Metric(0, key, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return m.Value
}

// Replays of worlds with known parameters agree with what happened there, and foresee what
// another policy does there.
func TestReplaysAgainstTheTruth(t *testing.T) {
	agreed, foreseen := 0, 0
	for i := range truths {
		w := &truths[i]
		var text bytes.Buffer
		w.run(t, w.policy, &text)
		p, err := past.ReadFrom(&text, past.Options{Name: w.name})
		if err != nil {
			t.Fatal(err)
		}
		of, s := replayOf(t, p, p.Policy)
		r, err := s.Run(t.Context(), lab.Options{Alone: true})
		if err != nil {
			t.Fatal(err)
		}
		a, err := compare(p, r)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parse("other", "  "+of.name+": "+other+"\n")
		if err != nil {
			t.Fatal(err)
		}
		now, err := s.Run(t.Context(), lab.Options{Alone: true, Config: f})
		if err != nil {
			t.Fatal(err)
		}
		then := w.run(t, other, nil)
		good, p50, p99 := metric(t, now, "goodput")-metric(t, then, "goodput"), metric(t, now, "p50")/metric(t, then, "p50")-1, metric(t, now, "p99")/metric(t, then, "p99")-1
		fits := math.Abs(good) <= pointsApart && math.Abs(p50) <= latencyApart && math.Abs(p99) <= latencyApart
		if fits {
			foreseen++
		}
		if a.holds() {
			agreed++
		}
		t.Logf("%-18s agrees %-5v %3.0f%% of calls in bins; whole %5.1f%% vs %5.1f%%, p99 %v vs %v | another policy: answered %+.1f points, p50 %+.0f%%, p99 %+.0f%% %v", w.name, a.holds(), 100*a.share,
			100*p.Whole.Good(), 100*a.whole.good, p.Whole.P99, a.whole.now.P99, 100*good, 100*p50, 100*p99, fits)
		if testing.Verbose() && !a.holds() {
			var table strings.Builder
			_ = a.write(&table)
			t.Log(table.String())
		}
	}
	t.Logf("%d of %d agree, %d are foreseen", agreed, len(truths), foreseen)
}
