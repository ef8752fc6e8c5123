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
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/past"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
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

func metric(t testing.TB, r *lab.Report, key string) float64 {
	t.Helper()
	m, _, err := r.Metric(0, key, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return m.Value
}

// httpSource is of clients without gabion: calls that are refused without a request leave no span.
const (
	httpSource  = "spans of HTTP"
	plainPolicy = "{safe: true, timeout: {call: 2s, attempt: 800ms}, retry: off, breaker: off}"
)

// sources are the forms in which the same run is read.
var sources = []struct {
	name  string
	write func(recording []byte, events []policy.Event, to io.Writer)
}{
	{"recording", func(text []byte, _ []policy.Event, to io.Writer) { _, _ = to.Write(text) }},
	{"spans of gabion", func(_ []byte, all []policy.Event, to io.Writer) { ourSpans(all, to) }},
	{"metrics, native", func(_ []byte, all []policy.Event, to io.Writer) { rangeOf(all, 5*time.Second, true, to) }},
	{"metrics, classic", func(_ []byte, all []policy.Event, to io.Writer) { rangeOf(all, 5*time.Second, false, to) }},
	{httpSource, func(_ []byte, all []policy.Event, to io.Writer) { httpSpans(all, to) }},
}

// differs are the replays that do not agree with what happened, each for a reason that the
// documents give: capacity that was short; a rate limit seen through a few counters, or by a client
// that waits unseen; outages of one step of the metrics; a p99 that lies anywhere in a wide bucket.
var differs = map[string]string{
	"brown-out":       "recording, spans of gabion, metrics, native, metrics, classic",
	"throttled":       "metrics, native, metrics, classic, spans of HTTP",
	"flapping":        "metrics, native, metrics, classic",
	"errors for half": "metrics, classic",
}

// Replays of worlds with known parameters agree with what happened there, and foresee what
// another policy does there, from whatever source they are made.
func TestReplaysAgainstTheTruth(t *testing.T) {
	agreed, foreseen := map[string]int{}, map[string]int{}
	for i := range truths {
		w := &truths[i]
		// Without GABION_SOAK one of ten pairs of a world and a source, and one of all in short runs.
		few := os.Getenv("GABION_SOAK") == ""
		if few && i%2 == 0 || testing.Short() && w.name != "refused" {
			continue
		}
		var text bytes.Buffer
		w.run(t, w.policy, &text)
		events := entries(t, text.Bytes())
		other := w.run(t, other, nil)
		recorded, err := past.ReadFrom(bytes.NewReader(text.Bytes()), past.Options{Name: w.name})
		if err != nil {
			t.Fatal(err)
		}
		for k, source := range sources {
			if few && (i+k)%len(sources) != 0 {
				continue
			}
			if source.name == httpSource {
				text.Reset()
				w.run(t, plainPolicy, &text)
				events = entries(t, text.Bytes())
				if recorded, err = past.ReadFrom(bytes.NewReader(text.Bytes()), past.Options{Name: w.name}); err != nil {
					t.Fatal(err)
				}
			}
			var made bytes.Buffer
			source.write(text.Bytes(), events, &made)
			p, err := past.ReadFrom(&made, past.Options{Name: w.name})
			if err != nil {
				t.Fatal(err)
			}
			a, fits, said := held(t, p, recorded, other)
			if want := !strings.Contains(differs[w.name], source.name); a.holds() != want {
				t.Errorf("%s from %s: the replay agrees: %v, want %v", w.name, source.name, a.holds(), want)
			}
			if a.holds() {
				agreed[source.name]++
			}
			if a.holds() && !fits && source.name != "metrics, classic" {
				t.Errorf("%s from %s: the replay agrees, and is wrong about another policy: %s", w.name, source.name, said)
			}
			if fits {
				foreseen[source.name]++
			}
			t.Logf("%-16s %-16s %s", w.name, source.name, said)
			if testing.Verbose() && !a.holds() {
				var table strings.Builder
				_ = a.write(&table)
				t.Log(table.String())
			}
		}
	}
	t.Logf("of %d: agree %v, foreseen %v", len(truths), agreed, foreseen)
}

// held holds a replay against what happened, and against what another policy did there.
func held(t *testing.T, p, recorded *past.Past, truth *lab.Report) (a *agreement, fits bool, said string) {
	t.Helper()
	w, err := newWorld(p, recorded.Policy)
	if err != nil {
		t.Fatal(err)
	}
	a, s, err := (&request{out: filepath.Join(t.TempDir(), "x.yaml"), stderr: io.Discard}).fit(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parse("other", "  "+w.name+": "+other+"\n")
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.Run(t.Context(), lab.Options{Alone: true, Config: f})
	if err != nil {
		t.Fatal(err)
	}
	good, p50, p99 := metric(t, now, "goodput")-metric(t, truth, "goodput"), metric(t, now, "p50")/metric(t, truth, "p50")-1, metric(t, now, "p99")/metric(t, truth, "p99")-1
	fits = math.Abs(good) <= pointsApart && math.Abs(p50) <= latencyApart && math.Abs(p99) <= latencyApart
	return a, fits, fmt.Sprintf("agrees %-5v %3.0f%% of calls in bins; answered %5.1f%% and %5.1f%%, p99 %s and %s | another policy: answered %+.1f points, p50 %+.0f%%, p99 %+.0f%% %v", a.holds(), 100*a.share,
		100*p.Whole.Good(), 100*a.whole.good, latency(p.Whole.P99, true), latency(a.whole.now.P99, true), 100*good, 100*p50, 100*p99, fits)
}
