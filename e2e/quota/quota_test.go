package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/testgolden"
)

// run is a fleet of processes that call a provider by one client in one way.
type run struct {
	client    client
	way       way
	processes int
	workers   int     // of each process: calls that it wants to have under way
	wrong     float64 // estimates are the size times this
}

// figures are what came of a run: of refusals from its start, and else from the end of the first span on. Shares of the quota
// are shares of what came back.
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

// drive runs the fleet for one span, in which all begin at once, and then for that many, in virtual time.
func (r run) drive(t *testing.T, spans int) (f figures) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(amount, span, 20*time.Millisecond, r.way.silent)
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		var mu sync.Mutex
		var took []time.Duration
		failed, had := 0, make([]float64, r.processes)
		var wg sync.WaitGroup
		for i := range r.processes {
			net := p.transport()
			defer net.CloseIdleConnections()
			call := r.way.make(p, net, r.processes, r.client)
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
		time.Sleep(time.Duration(spans) * span)
		after := p.counts()
		stop()
		wg.Wait()
		p.Close()
		f = r.figures(before, after, amount*float64(spans), took, failed, had)
	})
	return f
}

func (r run) figures(before, after spell, quota float64, took []time.Duration, failed int, had []float64) figures {
	f := figures{run: r, used: (after.used - before.used) / quota, lost: (after.lost - before.lost) / quota, first: before.left / amount, last: after.left / amount}
	f.refused = float64(after.refused) / float64(max(after.served+after.refused, 1))
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

const (
	amount = 200_000
	span   = time.Minute
	spans  = 10 // which are measured: what is left goes up and down by a twentieth of the amount, and so would two
)

// runs are the rows of the table: each client alone, with a limiter by hand, and over gabion.
func runs() (all []run) {
	for _, n := range []struct{ processes, workers int }{{1, 40}, {10, 4}, {50, 2}} {
		for _, c := range []client{openAI, anthropicSDK, netHTTP} {
			for _, w := range []way{alone, byHand, withWords} {
				all = append(all, run{c, w, n.processes, n.workers, 1})
			}
		}
		all = append(all, run{netHTTP, agreed, n.processes, n.workers, 1})
		for _, wrong := range []float64{1.0 / 3, 3} {
			for _, c := range []client{openAI, anthropicSDK, netHTTP} {
				all = append(all, run{c, withWords, n.processes, n.workers, wrong})
			}
			all = append(all, run{openAI, byHand, n.processes, n.workers, wrong})
		}
	}
	return all
}

// A quota is kept and used by one, ten and fifty processes that begin at once, whatever client they have and however
// wrong their estimates are.
//
//	go test ./e2e/quota -args -update
func TestProcessesThatShareAQuota(t *testing.T) {
	all := runs()
	rows := make([]string, len(all))
	t.Run("rows", func(t *testing.T) {
		for i, r := range all {
			ours := r.way.name == withWords.name || r.way.name == agreed.name
			if !testgolden.Updating() && (!ours || testing.Short() && (r.client.name != netHTTP.name || r.wrong != 1)) {
				continue
			}
			t.Run(fmt.Sprintf("%d %s, %s, %s", r.processes, r.client.name, r.way.name, wrongly(r.wrong)), func(t *testing.T) {
				t.Parallel()
				n := spans
				if r.way.name == alone.name {
					n = 1 // nothing of it changes later, and each sends hundreds of thousands
				}
				f := r.drive(t, n)
				rows[i] = f.String()
				t.Log(f)
				if ours && (f.used < 0.97 || f.refused > 0.005 || f.failed > 0) {
					t.Errorf("want 97 %% used at least, 0.5 %% refused at most, and no call that fails: %v", f)
				}
			})
		}
	})
	const page, begins, ends = "../../docs/quotas.md", "<!-- written by: go test ./e2e/quota -args -update -->\n", "<!-- end -->"
	testgolden.Measured(t, page, begins, ends, heading+"\n"+strings.Join(rows, "\n")+"\n")
}
