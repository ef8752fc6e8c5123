package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/lab/flaky"
	"github.com/gabion-go/gabion/policy"
)

// Settings are what a run is asked for.
type Settings struct {
	Seed    uint64
	Policy  policy.Policy
	Ledgers string      // a folder to keep the ledgers in; "" means they are removed
	Outage  *flaky.Plan // what the providers are, and what goes wrong
	live    *live       // nil: there is no page

	// payments is gabion's dependency; nil makes one of Policy. Runs that repeat the outage
	// have the same one, so that its live page goes on.
	payments *gabion.Dependency
}

// headstart is the time between building everything and the first arrival.
const headstart = 100 * time.Millisecond

// lastCalls is how long calls may take to notice that the run is over. Calls that take
// longer are left behind and reported.
const lastCalls = 3 * time.Second

// record is one finished call.
type record struct {
	order Order
	took  time.Duration // since the moment it was meant to start
	result
	open bool // still open when the run was cut
}

// undecided reports whether the call still had time when the run was cut, so that its outcome is
// unknown.
func (r record) undecided() bool { return r.open && r.took < inTime }

// good reports whether the call did what its caller wanted.
func (r record) good() bool { return r.ok && r.took <= inTime }

// side is one client, its own provider, and what was seen of the two.
type side struct {
	client   client
	provider *provider
	open     atomic.Int64 // calls that are out

	mu      sync.Mutex // guards records, line
	records []record
	line    timeline
}

// run drives the same orders through all clients and reports; show looks on
// until the play is over. A context that ends early makes a partial report, not an
// error.
func run(ctx context.Context, s Settings, show func(*stage)) (*Report, error) {
	dir, remove, err := ledgerDir(s.Ledgers)
	if err != nil {
		return nil, err
	}
	defer remove()
	st, err := raise(dir, s)
	if err != nil {
		return nil, err
	}
	s.live.begin(st)
	var shown sync.WaitGroup
	shown.Go(func() { show(st) })
	st.play(ctx)
	shown.Wait()
	report, err := st.strike(ctx)
	if err == nil {
		s.live.end(report)
	}
	return report, err
}

// stage is everything of one run.
type stage struct {
	settings Settings
	plan     Plan
	orders   []Order
	start    time.Time
	sides    []*side
	done     chan struct{}   // closed when the play is over
	cut      time.Duration   // when it was
	left     int             // calls that did not end in time
	late     []time.Duration // by how much each order started after its moment
}

// now is the time since the start of the run.
func (st *stage) now() time.Duration { return time.Since(st.start) }

// raise builds providers and clients.
func raise(dir string, s Settings) (*stage, error) {
	plan, err := planOf(s.Outage)
	if err != nil {
		return nil, err
	}
	st := &stage{settings: s, plan: plan, start: time.Now().Add(headstart), done: make(chan struct{})}
	st.orders = Orders(s.Seed, st.plan.Busy())
	for _, name := range []string{"loop", "keyed loop", "library", gabionName} {
		p, err := startProvider(dir, name, s, st.now)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start a provider: %w", err), st.closeAll())
		}
		st.sides = append(st.sides, &side{provider: p, line: newTimeline(st.plan), client: client{close: func() {}}})
	}
	st.build(s)
	return st, nil
}

// build builds the clients.
func (st *stage) build(s Settings) {
	url := func(i int) string { return st.sides[i].provider.url() }
	if s.payments == nil {
		s.payments = newPayments(s)
	}
	for i, c := range []client{newHand(url(0)), newKeyedHand(url(1)), newLibrary(url(2)), newGabion(url(3), s.payments)} {
		st.sides[i].client = c
	}
}

// play lets the calls arrive and waits for them, at most until the plan's end.
func (st *stage) play(ctx context.Context) {
	defer close(st.done)
	ctx, cancel := context.WithDeadline(ctx, st.start.Add(st.plan.Total))
	defer cancel()
	var calls sync.WaitGroup
	for _, o := range st.orders {
		if !pause(o.At-st.now(), ctx.Done()) {
			break
		}
		st.late = append(st.late, st.now()-o.At)
		for _, sd := range st.sides {
			st.call(ctx, sd, o, &calls)
		}
	}
	st.await(ctx, &calls)
}

// await waits for the calls that are out.
func (st *stage) await(ctx context.Context, calls *sync.WaitGroup) {
	home := make(chan struct{})
	go func() { calls.Wait(); close(home) }()
	select {
	case <-home:
		st.cut = st.now()
		return
	case <-ctx.Done():
		st.cut = st.now()
	}
	late := time.NewTimer(lastCalls)
	defer late.Stop()
	select {
	case <-home:
	case <-late.C:
		for _, sd := range st.sides {
			st.left += int(sd.open.Load())
		}
	}
}

// call starts one call of one client.
func (st *stage) call(ctx context.Context, sd *side, o Order, calls *sync.WaitGroup) {
	sd.arrive(o)
	if sd.open.Add(1) > maxOpen {
		sd.open.Add(-1)
		sd.settle(record{order: o, took: st.now() - o.At, result: result{reason: "too many open", denies: true}})
		return
	}
	calls.Go(func() {
		defer sd.open.Add(-1)
		res := sd.client.charge(ctx, o)
		cut := !res.ok && ctx.Err() != nil
		sd.settle(record{order: o, took: st.now() - o.At, result: res, open: cut})
	})
}

func (sd *side) arrive(o Order) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	sd.line.arrive(o.At)
}

func (sd *side) settle(r record) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	sd.records = append(sd.records, r)
	if !r.undecided() {
		sd.line.settle(r.order.At, r.good())
	}
}

// settled returns the calls that are home.
func (sd *side) settled() []record {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	return append([]record(nil), sd.records...)
}

// judged returns the timeline as it stands at now.
func (sd *side) judged(now time.Duration) timeline {
	sd.mu.Lock()
	line := sd.line.judged(now)
	sd.mu.Unlock()
	sd.provider.mark(&line)
	return line
}

// closeAll ends clients and providers.
func (st *stage) closeAll() error {
	var err error
	for _, sd := range st.sides {
		sd.client.close()
		err = errors.Join(err, sd.provider.close())
	}
	return err
}

// strike takes everything down and reports what happened, from the ledgers.
func (st *stage) strike(ctx context.Context) (*Report, error) {
	if err := st.closeAll(); err != nil {
		return nil, fmt.Errorf("close the providers: %w", err)
	}
	report := st.report(ctx.Err() != nil)
	for _, sd := range st.sides {
		charges, err := readLedger(sd.provider.path)
		if err != nil {
			return nil, err
		}
		seen := evidence{records: sd.settled(), arrivals: sd.provider.seen(), charges: charges, until: min(st.cut, st.plan.Busy())}
		report.Clients = append(report.Clients, seen.measure(sd.client, st.plan))
		report.lines = append(report.lines, sd.judged(st.cut).closed())
	}
	return report, nil
}

// ledgerDir makes the folder of the ledgers and says how to remove it.
func ledgerDir(keep string) (dir string, remove func(), err error) {
	if keep == "" {
		dir, err = os.MkdirTemp("", "gabion-demo-")
		return dir, func() { _ = os.RemoveAll(dir) }, err
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp(keep, "run-")
	return filepath.Clean(dir), func() {}, err
}
