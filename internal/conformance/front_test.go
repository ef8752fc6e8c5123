package conformance

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// live runs a case through the front door in a bubble: each call a goroutine,
// work that sleeps and listens to its context, or does not.
func live(t *testing.T, c *Case) (log Log) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &front{t: t, start: time.Now(), told: map[int]error{}}
		f.d = gabion.New("script", c.Policy, gabion.WithSeed(c.Seed), gabion.WithObserver(f), gabion.WithClassify(f.judge))
		f.run(c)
		log = f.log
	})
	return log
}

// front is a live run.
type front struct {
	t     *testing.T
	d     *gabion.Dependency
	start time.Time
	wg    sync.WaitGroup

	mu   sync.Mutex // guards all below
	log  Log
	told map[int]error
	sent int
	home int
}

func (f *front) run(c *Case) {
	for i := range c.Calls {
		plan := &c.Calls[i]
		f.wg.Go(func() { f.caller(i+1, plan) })
	}
	f.wg.Go(func() { f.hands(c.Hands) })
	f.wg.Wait()
	synctest.Wait()
	time.Sleep(time.Hour) // deaf work comes home
	synctest.Wait()
	for _, leak := range Leaks(f.d.Stats().Stats) {
		f.t.Errorf("live: %s: %s", c.Fact, leak)
	}
	f.check()
}

// hands does by hand what the script says, in one goroutine.
func (f *front) hands(hands []Hand) {
	inOrder := slices.SortedStableFunc(slices.Values(hands), func(a, b Hand) int { return cmp.Compare(a.At, b.At) })
	for _, h := range inOrder {
		time.Sleep(h.At - time.Since(f.start))
		h.Do(f)
		f.d.Stats() // takes what is due, and delivers
	}
}

// caller is the goroutine of one call.
func (f *front) caller(n int, p *Call) {
	time.Sleep(p.At)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if p.Cancel > 0 {
		if p.Cancel <= p.At {
			stop()
		}
		defer time.AfterFunc(p.Cancel-p.At, stop).Stop()
	}
	if p.Deadline > 0 {
		var end context.CancelFunc
		ctx, end = context.WithDeadline(ctx, f.start.Add(p.Deadline))
		defer end()
	}
	exits := true
	defer func() {
		if crash := recover(); crash != nil && crash != any(boom) {
			panic(crash)
		} else if crash == nil && exits && !p.exits() {
			f.t.Errorf("live: c%d left by a Goexit without a cause", n)
		}
	}()
	f.call(ctx, n, p)
	exits = false
}

const boom = "boom"

func (c *Call) exits() bool {
	for _, w := range c.Script {
		if w.Exits {
			return true
		}
	}
	return false
}

func (f *front) call(ctx context.Context, n int, p *Call) {
	work := func(ctx context.Context) (*policy.Outcome, error) { return f.work(ctx, p) }
	if !p.Open {
		_, err := gabion.Do(ctx, f.d, work, p.options(n)...)
		f.answered(n, err)
		return
	}
	_, held, err := gabion.Open(ctx, f.d, work, p.options(n)...)
	f.answered(n, err)
	if held == nil {
		return
	}
	time.Sleep(p.Hold)
	var broke error
	if p.Breaks {
		broke = errDown
	}
	held.Close(broke)
	held.Close(broke) // harmless
}

// answered keeps what the caller was told.
func (f *front) answered(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told[n] = err
}

// check compares what callers got with what the observer got. The observer may get it later: the
// goroutine that reports to it also reports what others decide.
func (f *front) check() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent != f.home {
		f.t.Errorf("live: %d attempts began, %d ended", f.sent, f.home)
	}
	said := map[int]bool{}
	for _, line := range f.log.Of(policy.KindReturned) {
		said[line.Call] = true
		if err, ok := f.told[line.Call]; ok && gabion.ReasonOf(err) != line.Event.Reason {
			f.t.Errorf("live: c%d returned %s, its caller was told %v", line.Call, line.Event.Reason, err)
		}
	}
	for n, err := range f.told {
		if err == nil && !said[n] {
			f.t.Errorf("live: c%d was answered and nothing said", n)
		}
	}
}

func (c *Call) options(n int) []gabion.CallOption {
	opts := []gabion.CallOption{gabion.WithOperation(strconv.Itoa(n))}
	add := func(on bool, o gabion.CallOption) {
		if on {
			opts = append(opts, o)
		}
	}
	add(!c.Unsafe, gabion.WithIdempotent())
	add(c.NoRetry, gabion.WithoutRetry())
	add(c.NoHedge, gabion.WithoutHedge())
	add(c.Timeout > 0, gabion.WithTimeout(c.Timeout))
	add(c.Priority != 0, gabion.WithPriority(c.Priority))
	add(c.Tenant != "", gabion.WithTenant(c.Tenant))
	add(c.Partition != "", gabion.WithPartition(c.Partition))
	return opts
}

// work is one attempt.
func (f *front) work(ctx context.Context, p *Call) (*policy.Outcome, error) {
	f.count(&f.sent)
	defer f.count(&f.home)
	w := p.work(uint8(gabion.AttemptNumber(ctx)))
	if w.Deaf {
		time.Sleep(w.Takes)
	} else if err := nap(ctx, w.Takes); err != nil {
		return nil, err
	}
	switch {
	case w.Panics:
		panic(boom)
	case w.Exits:
		runtime.Goexit()
	}
	return w.Means, w.Err
}

func (f *front) count(n *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
}

func nap(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (f *front) judge(result any, err error) policy.Outcome {
	means, _ := result.(*policy.Outcome)
	return judge(means, err)
}

// Observe implements gabion.Observer.
func (f *front) Observe(_ context.Context, e gabion.Event) {
	n := 0
	if e.Operation != "" {
		n, _ = strconv.Atoi(e.Operation)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, Line{time.Duration(e.At), n, e})
}

// Reload implements Handle.
func (f *front) Reload(p policy.Policy) error { return f.d.Reload(p) }

// SetRetries implements Handle.
func (f *front) SetRetries(on bool) {
	if on {
		f.d.Retries().Resume()
	} else {
		f.d.Retries().Stop(0)
	}
}

// Move implements Handle. The breaker is reached past the front door, since a
// script needs every verb of it.
func (f *front) Move(partition string, do func(*breaker.Breaker, Instant)) {
	state := (*machine.State)(reflect.ValueOf(f.d).Elem().FieldByName("state").UnsafePointer())
	if b := state.Breaker(partition); b != nil {
		do(b, Instant(time.Since(f.start)))
	}
}

// same compares two logs instant by instant.
func same(a, b Log) error {
	x, y := a.sorted(Line.full), b.sorted(Line.full)
	for i := range max(len(x), len(y)) {
		var one, other string
		if i < len(x) {
			one = x[i]
		}
		if i < len(y) {
			other = y[i]
		}
		if one != other {
			return fmt.Errorf("line %d:\n virtual %s\n live    %s", i+1, one, other)
		}
	}
	return nil
}
