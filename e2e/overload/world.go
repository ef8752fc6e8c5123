package overload

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

// A World is a server, its callers and the load. It is only read once it is made.
type World struct {
	Workers int           // of the server
	Work    time.Duration // that each request takes of a worker
	Queue   int           // requests that wait for a worker; the next is answered 503
	Clients int           // each knows only of its own calls
	Base    float64       // the load, as a multiple of the capacity
	Peak    float64       // the same while it is too much
	Before  time.Duration // how long the load is normal at first
	Trigger time.Duration // how long it is too much
	After   time.Duration // how long it is normal again
	Pings   int           // requests to the idle server at first, which say what an answer takes at best
	Seed    uint64        // of the times of calls, of who makes them, and of the clients' draws
}

// The worlds that are run. A server of twenty workers and 100 ms of work serves 200 requests
// a second, and ten workers a hundred: the small world is for the race detector on slow
// processors. A queue holds five seconds of work, and callers wait for one.
var (
	Large = World{
		Workers: 20, Work: 100 * time.Millisecond, Queue: 1000, Clients: 4, Base: 0.8, Peak: 3,
		Before: 30 * time.Second, Trigger: 10 * time.Minute, After: time.Minute, Seed: 1, Pings: 400,
	}
	Small = World{
		Workers: 10, Work: 100 * time.Millisecond, Queue: 500, Clients: 4, Base: 0.8, Peak: 3,
		Before: 8 * time.Second, Trigger: 8 * time.Second, After: 34 * time.Second, Seed: 1, Pings: 40,
	}
)

// The times that callers have, as policies.yaml says. An answer after the call's time is
// of no use to anybody.
const (
	Patience = time.Second     // of an attempt
	CallTime = 3 * time.Second // of a call, whatever its attempts
)

// Capacity is the requests a second that the server can serve.
func (w *World) Capacity() float64 { return float64(w.Workers) / w.Work.Seconds() }

// Duration is how long load is offered.
func (w *World) Duration() time.Duration { return w.Before + w.Trigger + w.After }

// An arrival is a call that is due.
type arrival struct {
	at     time.Duration
	client int
}

// arrivals are a Poisson process.
func (w *World) arrivals() (due []arrival) {
	draws := rand.New(rand.NewPCG(w.Seed, 14))
	at, calm, wild := time.Duration(0), w.Base*w.Capacity(), w.Peak*w.Capacity()
	for {
		rate, until := calm, w.Duration()
		switch end := w.Before + w.Trigger; {
		case at < w.Before:
			until = w.Before
		case at < end:
			rate, until = wild, end
		}
		next := at + time.Duration(draws.ExpFloat64()/rate*float64(time.Second))
		switch {
		case next < until:
			at = next
			due = append(due, arrival{at, draws.IntN(w.Clients)})
		case until == w.Duration():
			return due
		default: // from a change of the rate on, the process begins anew
			at = until
		}
	}
}

// A Case is how the server is protected and what the callers do.
type Case struct {
	Server  Server
	Callers string // a dependency of policies.yaml
}

// Short is the trigger of a spike.
const Short = 10 * time.Second

// A Planned case is run with a spike, and with ten minutes of overload if it is Long.
type Planned struct {
	Case
	Long bool
}

// Cases are all that are run.
func Cases() []Planned {
	return []Planned{
		{Case{Bare, Plain}, true},
		{Case{Bare, Naive}, true},
		{Case{Bare, Default}, true},
		{Case{Bare, Limited}, true},
		{Case{Fixed, Plain}, true},
		{Case{Fixed, Naive}, true},
		{Case{Fixed, Default}, true},
		{Case{Fixed, Limited}, false},
		{Case{Learned, Plain}, true},
		{Case{Learned, Naive}, true},
		{Case{Learned, Default}, true},
		{Case{Learned, Limited}, false},
	}
}

// Admits reports whether the server has admission.
func (c Case) Admits() bool { return c.Server != Bare }

// String returns server and callers.
func (c Case) String() string { return fmt.Sprintf("%s/%s", c.Server, c.Callers) }

// Server says what protects a server.
type Server string

// The servers.
const (
	Bare    Server = "bare"    // nothing but its queue's length
	Fixed   Server = "fixed"   // gabionhttp.Admission that admits as many as there are workers
	Learned Server = "learned" // gabionhttp.Admission as it is, which finds out how many
)

// The callers. The first two are a plain loop in the real run.
const (
	Plain   = "plain"   // one try
	Naive   = "naive"   // three tries at once
	Default = "gabion"  // gabion's defaults
	Limited = "learned" // the same with a learned limit
)

//go:embed policies.yaml
var policies []byte

// callers returns policies.yaml.
func callers() (*config.File, error) { return config.Parse("policies.yaml", policies) }

// policyOf returns the policy of callers.
func policyOf(name string) (policy.Policy, error) {
	file, err := callers()
	if err != nil {
		return policy.Policy{}, err
	}
	p, ok := file.Policies[name]
	if !ok {
		return p, fmt.Errorf("policies.yaml has no callers %q", name)
	}
	return p, nil
}
