package bench

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/report"
)

// Contest is one task that several libraries are given.
type Contest struct {
	Name     string // in the benchmark's name: BenchmarkContest/<Name>/<Entry.Name>/<Mode.Name>
	Title    string
	About    string // what is measured, beyond the common settings
	Floor    string // the entry of the floors: the least possible cost
	Headline bool   // is measured in more rounds
	CPU      bool   // report the process's CPU time too
	Runs     int    // how often one call executes the work
	Fails    int    // how many of these fail, the first ones
	Listens  bool   // the work asks its context for Done
	Modes    []Mode // none means Single and Parallel
	Entries  []Entry

	// Prepare makes what all entries share, such as a server. Nil means nothing.
	Prepare func(testing.TB)
}

// Kind says what an entry is.
type Kind uint8

// The kinds of entries. The first of kind Gabion is the one that others are
// compared with.
const (
	Peer Kind = iota
	Gabion
	Hand  // written by hand
	Floor // no policy at all: what the machine and the standard library cost
)

// Entry is how one library does the task.
type Entry struct {
	Name string
	Kind Kind
	Note string // what sets it apart from the others

	// Weaker says that the entry does less than the contest asks for, as Note
	// tells: it is shown, but not the one to beat.
	Weaker bool

	// Start makes what all calls share, such as a breaker, and returns what makes
	// a goroutine's call. A call reports whether it ended as it must.
	Start func(*Run) func(*Worker) (call func() bool)
}

// Mode is how many goroutines call at once.
type Mode struct {
	Name       string
	Goroutines int // 0 means one for each processor
}

// The modes of most contests.
var (
	Single   = Mode{"single", 1}
	Parallel = Mode{"parallel", 0}
)

// Run is one measurement of one entry.
type Run struct {
	testing.TB
	Extra   map[string]float64 // further measurements, by their unit
	Counted func() int         // counts executions where they are not a Worker's

	contest *Contest
	mu      sync.Mutex // guards workers
	workers []*Worker
}

// Worker is one goroutine that calls. Its fields are its own, on its own cache
// lines: counting executions must not be what limits parallel calls.
type Worker struct {
	_       [128]byte
	ID      uint32
	Ran     int // executions so far
	calls   int
	group   int // executions per call
	fails   int // of these fail
	listens bool
	late    bool // keeps what was read from being optimized away
	line    *[8]*byte
	_       [128]byte
}

var errBlip = classify.Transient(errors.New("blip"))

// Work is what every call is about. It returns how often it ran, so that no
// result can be an old one.
func (w *Worker) Work(ctx context.Context) (int, error) {
	if w.listens {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		default:
		}
	}
	return w.Plain()
}

// Plain is Work for libraries that don't hand a context on.
func (w *Worker) Plain() (int, error) {
	w.Ran++
	if w.fails > 0 && (w.Ran-1)%w.group < w.fails {
		return 0, errBlip
	}
	return w.Ran, nil
}

// Right reports whether a call that must succeed did.
func (w *Worker) Right(v int, err error) bool { return err == nil && v == w.Ran }

func (r *Run) worker() *Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.contest
	w := &Worker{ID: uint32(len(r.workers)), group: c.Runs, fails: c.Fails, listens: c.Listens}
	r.workers = append(r.workers, w)
	return w
}

// check compares the executions with the calls, each failed call having failed
// already.
func (r *Run) check() {
	calls, ran := 0, 0
	for _, w := range r.workers {
		calls += w.calls
		ran += w.Ran
	}
	if r.Counted != nil {
		ran = r.Counted()
	}
	if ran != calls*r.contest.Runs {
		r.Errorf("%d calls executed the work %d times, want %d", calls, ran, calls*r.contest.Runs)
	}
}

func (c *Contest) modes() []Mode {
	if c.Modes == nil {
		return []Mode{Single, Parallel}
	}
	return c.Modes
}

// Measured returns the names of the contest's modes.
func (c *Contest) Measured() (names []string) {
	for _, m := range c.modes() {
		names = append(names, m.Name)
	}
	return names
}

// Benchmark measures every entry in every mode.
func (c *Contest) Benchmark(b *testing.B) {
	c.Ready(b)
	for _, e := range c.Entries {
		for _, m := range c.modes() {
			b.Run(e.Name+"/"+m.Name, func(b *testing.B) { c.measure(b, e, m) })
		}
	}
}

func (c *Contest) measure(b *testing.B, e Entry, m Mode) {
	r := &Run{TB: b, contest: c, Extra: map[string]float64{}}
	play := e.Start(r)
	b.ReportAllocs()
	spent := report.CPUTime()
	if m.Goroutines == 1 {
		spent = r.alone(b, play)
	} else {
		b.SetParallelism(max(m.Goroutines/runtime.GOMAXPROCS(0), 1))
		b.ResetTimer()
		r.together(b, play)
	}
	b.StopTimer()
	if c.CPU && b.N > 0 {
		r.Extra["cpu-ns/op"] = float64(report.CPUTime()-spent) / float64(b.N)
	}
	r.check()
	for unit, value := range r.Extra {
		b.ReportMetric(value, unit)
	}
}

func (r *Run) alone(b *testing.B, play func(*Worker) func() bool) (spent time.Duration) {
	w := r.worker()
	call := play(w)
	spent = report.CPUTime()
	for b.Loop() {
		if !call() {
			b.Fatal("a call did not end as it must")
		}
		w.calls++
	}
	return spent
}

func (r *Run) together(b *testing.B, play func(*Worker) func() bool) {
	b.RunParallel(func(pb *testing.PB) {
		w := r.worker()
		call := play(w)
		for pb.Next() {
			if !call() {
				b.Error("a call did not end as it must")
				return
			}
			w.calls++
		}
	})
}

// Ready makes what the entries share, which lasts as long as t.
func (c *Contest) Ready(t testing.TB) {
	if c.Prepare != nil {
		c.Prepare(t)
	}
}

// Try makes a few calls with an entry, for tests.
func (c *Contest) Try(t testing.TB, e Entry, calls int) {
	r := &Run{TB: t, contest: c, Extra: map[string]float64{}}
	play := e.Start(r)
	for range 2 {
		w := r.worker()
		call := play(w)
		for range calls {
			if !call() {
				t.Fatal("a call did not end as it must")
			}
			w.calls++
		}
	}
	r.check()
}

// Contests are all the tasks, in the order of the report.
func Contests() []*Contest {
	return slices.Concat(floors(), stacks(), breakers(), retries(), budgets(), limits(), learners(), servers(), timeouts(), hedges(), clients(), rpcs(), databases(), watched())
}
