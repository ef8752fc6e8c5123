package quota

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// run is a fleet of processes that call a provider by one client in one way.
type run struct {
	client    client
	way       way
	processes int
	workers   int     // of each process: calls that it wants to have under way
	wrong     float64 // estimates are the size times this
}

// figures are what came of a run, from the end of the first span on. Shares of the quota are shares of what came back.
type figures struct {
	run
	used, lost      float64
	first, last     float64 // what is left, as a share of the amount
	refused         float64 // of the answers
	failed          float64 // of the calls: what the callers saw
	median, p99     time.Duration
	leastOf, mostOf float64 // tokens of a process, as a share of an equal part
}

func (f figures) String() string {
	return fmt.Sprintf("| %d | %s | %s | %s | %.1f %% | %.1f %% | %.0f → %.0f %% | %.2f %% | %.1f %% | %v | %v | %.0f to %.0f %% |", f.processes, f.client.name, f.way.name, wrongly(f.wrong),
		100*f.used, 100*f.lost, 100*f.first, 100*f.last, 100*f.refused, 100*f.failed, f.median.Round(10*time.Millisecond), f.p99.Round(10*time.Millisecond), 100*f.leastOf, 100*f.mostOf)
}

const heading = `| Processes | Calls by | With | Estimates | Quota used | Lost | Left | Refused (429) | Calls failed | Median | p99 | A process had, of its part |
|---|---|---|---|---|---|---|---|---|---|---|---|`

func wrongly(by float64) string {
	switch {
	case by < 1:
		return "a third"
	case by > 1:
		return "three times"
	}
	return "right"
}

// drive runs the fleet for one span that does not count, and then for that many.
func (r run) drive(ctx context.Context, amount float64, span time.Duration, spans int) (figures, error) {
	p, err := newProvider(amount, span, 20*time.Millisecond, r.way.silent)
	if err != nil {
		return figures{}, err
	}
	defer p.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	var mu sync.Mutex
	var took []time.Duration
	failed, had := 0, make([]float64, r.processes)
	var wg sync.WaitGroup
	for i := range r.processes {
		call := r.way.make(p, r.processes, r.client)
		for w := range r.workers {
			sizes := rand.New(rand.NewPCG(uint64(i), uint64(w)))
			wg.Go(func() {
				for ctx.Err() == nil {
					size := mixed(sizes)
					start := time.Now()
					err := call(ctx, size, max(size*r.wrong, 1))
					if ctx.Err() != nil {
						return
					}
					mu.Lock()
					if time.Since(began) > span {
						took = append(took, time.Since(start))
						if err != nil {
							failed++
						} else {
							had[i] += size
						}
					}
					mu.Unlock()
				}
			})
		}
	}
	time.Sleep(span)
	before := p.counts()
	measured := time.Now()
	time.Sleep(time.Duration(spans) * span)
	after, lasted := p.counts(), time.Since(measured)
	stop()
	wg.Wait()
	return r.figures(before, after, amount, amount*lasted.Seconds()/span.Seconds(), took, failed, had), nil
}

func (r run) figures(before, after spell, amount, quota float64, took []time.Duration, failed int, had []float64) figures {
	f := figures{run: r, used: (after.used - before.used) / quota, lost: (after.lost - before.lost) / quota, first: before.left / amount, last: after.left / amount}
	answers := after.served - before.served + after.refused - before.refused
	f.refused = float64(after.refused-before.refused) / float64(max(answers, 1))
	f.failed = float64(failed) / float64(max(len(took), 1))
	slices.Sort(took)
	if len(took) > 0 {
		f.median, f.p99 = took[len(took)/2], took[len(took)*99/100]
	}
	part := quota / float64(r.processes)
	f.leastOf, f.mostOf = slices.Min(had)/part, slices.Max(had)/part
	return f
}

// mixed is many small calls and some large ones, some 970 tokens on average.
func mixed(r *rand.Rand) float64 {
	if r.IntN(10) == 0 {
		return 2000 + float64(r.IntN(4000))
	}
	return 200 + float64(r.IntN(860))
}

// together drives all runs at the same time: each has a provider of its own, and they hardly need a processor.
func together(t testing.TB, runs []run, amount float64, span time.Duration, spans int) []figures {
	all := make([]figures, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() {
			var err error
			if all[i], err = r.drive(t.Context(), amount, span, spans); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return all
}

// A short quota is kept by one, ten and fifty processes over real HTTP.
func TestProcessesThatShareAQuota(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a quota of 2 s, for 10 s; internal/quota plays the same in made-up time")
	}
	for _, f := range together(t, []run{
		{openAI, withWords, 1, 40, 1}, {netHTTP, withWords, 10, 4, 1}, {openAI, withWords, 10, 4, 3}, {netHTTP, withWords, 50, 2, 1},
	}, 200_000, 2*time.Second, 4) {
		t.Log(f)
		if f.used < 0.9 || f.refused > 0.02 || f.failed > 0.01 { // wider than what is measured: the machine may do something else
			t.Errorf("too little of the quota was used, or too much was refused: %v", f)
		}
	}
}

// measured is for how many minutes a quota is measured, after one that does not count.
var measured = flag.Int("minutes", 2, "for how many minutes BenchmarkQuotas measures")

// BenchmarkQuotas writes the table of docs/quotas.md. Its runs go side by side, once.
func BenchmarkQuotas(b *testing.B) {
	var runs []run
	for _, n := range []struct{ processes, workers int }{{1, 40}, {10, 4}, {50, 2}} {
		for _, c := range []client{openAI, anthropicSDK, netHTTP} {
			for _, w := range []way{alone, byHand, withWords} {
				runs = append(runs, run{c, w, n.processes, n.workers, 1})
			}
		}
		runs = append(runs, run{netHTTP, agreed, n.processes, n.workers, 1})
		for _, wrong := range []float64{1.0 / 3, 3} {
			for _, c := range []client{openAI, anthropicSDK, netHTTP} {
				runs = append(runs, run{c, withWords, n.processes, n.workers, wrong})
			}
			runs = append(runs, run{openAI, byHand, n.processes, n.workers, wrong})
		}
	}
	var table strings.Builder
	table.WriteString(heading)
	for _, f := range together(b, runs, 200_000, time.Minute, *measured) {
		fmt.Fprintf(&table, "\n%v", f)
		if f.way.name == withWords.name && (f.lost > 0.03 || f.refused > 0.005) {
			b.Errorf("want 3 %% lost at most, and 0.5 %% refused at most: %v", f)
		}
	}
	b.Log("\n" + table.String())
}
