// Package sim runs a world of clients, services and faults in virtual time.
//
// Every decision about a call is made by package policy, by the code and the rules
// that production runs; this package only says what the world does. One [World]
// and one seed give one run, the same on every machine, event by event.
package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// World is everything that a run needs besides its seed. It is only read, so that
// replications may share one.
type World struct {
	Duration time.Duration   // how long load is offered
	Warmup   time.Duration   // of it, what does not count
	Drain    time.Duration   // after it, how long what is still under way may take
	Bin      time.Duration   // of the series; zero means a second
	Cuts     []time.Duration // where a run is cut into phases, rising and positive
	Fleets   []Fleet
	Services []Service
	Faults   []Fault
	Ways     bool // counts how attempts fail, and after what they are sent again
}

// Loop says when a client makes its next call.
type Loop uint8

// The loops.
const (
	Open   Loop = iota // whatever became of the ones before: as the load says
	Closed             // when the one before has ended, after thinking
	Trace              // at recorded times
)

// Fleet is clients that are alike.
type Fleet struct {
	Name    string
	Clients int
	Loop    Loop
	Load    Load            // Open: calls a second of the whole fleet, over time
	Even    bool            // Open: at equal distances instead of as a Poisson process
	Think   draw.Dist       // Closed: between an answer and the next call
	Spread  time.Duration   // Closed: over how long the clients start
	At      []time.Duration // Trace: when calls are made
	Met     []Met           // Trace, beside At: what each call met; nil means unknown
	Calls   []Recorded      // Trace, in place of At: calls whose attempts were recorded too, by one step of one edge
	Session int             // calls after which a client is replaced by a new one that knows nothing; 0 means never
	Shared  int             // how many clients share one policy's state, as behind a sidecar; 0 means 1
	Shares  *Shares         // for clients that divide what their policies share; nil means that each has the whole
	Greedy  float64         // Open and Trace: the share of the work that the first client has; 0 means that all are alike
	Queue   *Queue          // between load and clients; nil means none. Not for the loop Closed
	Plan    Plan
}

// Plan is what is called to do one piece of work: one step after another. A step
// that fails ends it.
type Plan struct {
	Steps    []Step
	Deadline time.Duration // of the whole; 0 means none but the policies'
}

// Step is calls that are made at once.
type Step struct {
	Edge   Edge
	Fan    int     // how many; 0 means 1
	Quorum int     // of these, how many must succeed; 0 means all
	Chance float64 // that the step is taken; 0 means always
}

// Edge is who is called, and by which policy.
type Edge struct {
	To       int // the service
	Rules    *machine.Rules
	Network  draw.Dist        // one way
	Loss     float64          // share of messages that are lost, each way
	Method   string           // of HTTP, which says whether it may be repeated; empty means that only the policy and a key do
	Keyed    bool             // the caller gives an idempotency key, which a service may honour
	Deadline bool             // the caller's deadline travels along
	Blunt    bool             // the caller sees of an answer only that it is an error
	Repeats  *outcome.Repeats // what the caller sends again, where that is a list of its own; nil means what the policy says
	Priority bulkhead.Priority
	Cache    *Cache // beside the call; nil means none
	Conns    *Conns // nil means any number, which costs nothing
	Uses     []Use  // of quotas, each of another unit
}

// Balance says which replica gets an attempt.
type Balance uint8

// The balances.
const (
	Random Balance = iota
	RoundRobin
	TwoChoices // the less busy of two random ones
	LeastBusy
)

// Discipline says who of those who wait is served next.
type Discipline uint8

// The disciplines.
const (
	FIFO Discipline = iota
	LIFO
	CoDel      // first in, first out, and in an overload those who waited too long are refused: see package admission
	ByPriority // higher first, first in first out within one
)

// Service answers calls.
type Service struct {
	Name        string
	Replicas    int // 0 means 1
	Balance     Balance
	Workers     int // of each replica; 0 means that no request ever waits
	Discipline  Discipline
	Queue       int           // who may wait at a replica; the next is refused
	Target      time.Duration // CoDel: 0 means admission.DefaultTarget
	Interval    time.Duration // CoDel: 0 means admission.DefaultInterval
	DropExpired bool          // does no work for callers whose deadline has passed
	Time        draw.Dist     // of the work itself
	ByCall      bool          // what takes long for one attempt does so for all of its call
	Crowd       float64       // how much longer work takes for each request under way, itself included: 0.01 is 1 %
	RefuseCost  float64       // what a refusal costs, as a share of the work
	Honours     bool          // idempotency keys: an answered call is answered again without work
	Marks       bool          // says "do not retry" when a service below failed
	Limit       Limit
	Quotas      *Quotas // nil means none
	Pauses      Pauses
	Admission   *Admission // what it lets in before its workers; nil means all
	Plan        Plan       // what it calls in turn, after its own work and while its worker waits
}

// Limit is a rate limit at a service.
type Limit struct {
	Rate      float64       // requests a second of the whole service; 0 means none
	Burst     int           // at once; less than 1 means 1
	After     time.Duration // the Retry-After of a refusal; 0 means that it names none
	Honest    bool          // names when there will be room instead
	PerCaller bool          // each client has the whole rate
}

// Kind says what a fault does.
type Kind uint8

// The kinds of fault.
const (
	Refuse        Kind = iota // connections are refused: nothing was sent
	BlackHole                 // nothing ever answers
	Reset                     // connections break when the request has arrived
	BrownOut                  // capacity is Factor of what it was
	Slow                      // work takes Factor times as long, and Add longer
	Errors                    // a share of requests fails with Status
	LostAnswers               // a share of answers is lost when the work is done
	RateLimit                 // Limit is in force
	Restart                   // what is under way is lost; the service is down for For, then work is slow at first
	ClientRestart             // clients begin anew, all at once or some each time
	Skew                      // clocks of the service are off by Add
	Reload                    // a fleet's policy is replaced by Rules
	CutBody                   // a share of answers breaks off in the middle, when the work is done
	SlowBody                  // the body of an answer takes Add longer to arrive, while no worker is busy with it
	CacheDown                 // the caches beside the calls of the service lose what they have and keep nothing; afterwards they are empty. Of a share of the keys, the same ones each time
	StoreDown                 // the store over which clients share limits does not answer
)

// Crew is a kind that files don't have: workers are Factor times as many, which may be more.
const Crew = StoreDown + 1

// Fault is something that goes wrong for a while.
type Fault struct {
	Kind     Kind
	Service  int // for faults of services
	Fleet    int // for faults of fleets
	At, For  time.Duration
	Ramp     time.Duration // over which it grows to its full size, and falls again
	Period   time.Duration // it comes again; 0 means once
	Until    time.Duration // the last time of a period; 0 means the end of the load
	Replicas int           // how many of them; 0 means all. ClientRestart: of clients, and the next ones each time
	Callers  int           // of faults that requests meet: how many of those who call meet it, the first ones; 0 means all
	Share    float64       // of requests; 0 means all
	Factor   float64
	Add      time.Duration
	Status   int           // Errors: a status for which MayAnswer; a 500 is a failure of the work, others come before it. 0 means 503
	Ways     []Way         // Errors: several, in place of Status; their shares are 1 together
	After    time.Duration // Errors: the Retry-After of those that name one
	Late     bool          // Errors: the work was done and only then failed
	Costs    bool          // Errors and Reset: a worker spends the time of the work on it, though nothing is done
	Limit    Limit
	Rules    *machine.Rules
	Repeats  *outcome.Repeats // Reload: as that of an Edge
}
