package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// Policies says by which policies a side of a study goes.
type Policies struct {
	// Name is for people. Empty means what the others say.
	Name string

	// File replaces the scenario's policies, by name. Nil means that none is
	// replaced.
	File *config.File

	// As names other dependencies of File for policies of the scenario: payments
	// for db makes the scenario's db go by the policy of payments.
	As map[string]string

	// Against says that it is the other side of a comparison, for which messages name another flag.
	Against bool

	// Rival is "none", for callers that only call, within the call's timeout; plain, for those that
	// keep the timeout of an attempt too; or naive, for callers that try three times at once. Empty
	// means no rival.
	Rival string

	// Change changes each policy before it is used. Nil means no change.
	Change func(policy.Policy) policy.Policy

	// Edit changes a policy by its name in the scenario, after Change. Nil means that
	// none is.
	Edit func(name string, p policy.Policy) (policy.Policy, error)

	// Repeats are the failures after which a policy is sent again, by its name in the scenario, where that is a list of
	// another system's: statuses as 503 or 5xx, and refused, reset and timeout. Nil, here and as a list, means those that the
	// policy itself says.
	Repeats func(name string) []string
}

// world is a scenario made ready to run, for one side.
type world struct {
	sim.World
	edges    []worldEdge
	visits   [][]float64               // by fleet, then service: requests for one piece of work
	means    []time.Duration           // of each service's work; only a study needs them
	from, to time.Duration             // the time of trouble
	policies []Policy                  // in the order in which edges name them
	rules    map[string]*machine.Rules // of these, by name
	hash     string
	lacks    []string // what the side's file has no dependency for, where it has others
	usual    bool     // all of them are the defaults, but for times and for what is safe
}

// worldEdge is an edge in the order in which a run counts them.
type worldEdge struct {
	fleet   int // the caller, or -1
	service int // the caller, or -1
	to      int
	policy  string

	unbudgeted bool // there is no budget for what is sent again
	unguarded  bool // there is no breaker
}

// scale changes a scenario, for a map or a Trial: all are 1 without one.
type scale struct{ load, trigger, severity float64 }

var asItIs = scale{1, 1, 1}

// world lowers the file for one side.
func (f *File) world(p *Policies, by scale) (*world, error) {
	l := lowering{file: f, side: p, by: by, rules: map[string]*machine.Rules{}, repeats: map[string]*outcome.Repeats{}, keyed: map[string]bool{}, fixed: f.fixed()}
	w := &world{}
	w.Ways = tellsWays(f.faults)
	w.Duration, w.Warmup, w.Drain, w.Bin = f.duration, f.warmup, f.drain, f.bin
	for i := range f.services {
		w.Services = append(w.Services, l.service(&f.services[i]))
	}
	for i := range f.fleets {
		w.Fleets = append(w.Fleets, l.fleet(&f.fleets[i]))
		w.visits = append(w.visits, f.visits(f.fleets[i].calls))
		l.join(w, f.fleets[i].calls, i, -1)
	}
	for i := range f.services {
		l.join(w, f.services[i].calls, -1, i)
	}
	for i := range f.faults {
		w.Faults = append(w.Faults, l.fault(&f.faults[i]))
	}
	w.Cuts = f.cuts(by)
	w.from, w.to = f.troubleAt(by)
	w.policies, w.rules, w.lacks = l.used, l.rules, l.lacks
	w.hash = l.hash()
	w.usual = !l.special
	if l.err == nil && p.File != nil && !l.given {
		l.err = l.notGiven()
	}
	if l.err == nil {
		l.err = l.renamed()
	}
	return w, l.err
}

// renamed refuses another name for a policy by which nothing goes.
func (l *lowering) renamed() error {
	for _, name := range slices.Sorted(maps.Keys(l.side.As)) {
		if _, ok := l.rules[name]; !ok {
			return fmt.Errorf("nothing in %s goes by the policy %q: %s", l.file.Name, name, oneOf(name, slices.Sorted(maps.Keys(l.rules))))
		}
	}
	return nil
}

// notGiven says that the side's file was given for nothing: the scenario's own policies
// must not pass for those of production.
func (l *lowering) notGiven() error {
	names := make([]string, len(l.used))
	for i, u := range l.used {
		names[i] = u.Name
	}
	theirs := l.side.File.Names()
	if len(theirs) == 0 {
		return fmt.Errorf("%s has no dependencies", l.side.File.Name)
	}
	flag := "--as"
	if l.side.Against {
		flag = "--against-as"
	}
	return fmt.Errorf("%s has none of the dependencies that %s calls (%s): name the one that is meant, such as %s %s=%s",
		l.side.File.Name, l.file.Name, strings.Join(names, ", "), flag, names[0], theirs[0])
}

func (l *lowering) join(w *world, calls []namedEdge, fleet, service int) {
	for _, e := range calls {
		r := l.rulesOf(e.Policy)
		w.edges = append(w.edges, worldEdge{fleet, service, e.to, e.Policy, r != nil && unbudgeted(&r.Policy), r != nil && r.Policy.Breaker.Off})
	}
}

// unbudgeted reports whether no budget bounds what a policy sends again, or it sends
// nothing again.
func unbudgeted(p *policy.Policy) bool {
	return p.Retry.Budget.Off || p.Retry.Attempts == 1 && p.Hedge.Max == 0
}

// cuts are where phases begin, besides the first.
func (f *File) cuts(by scale) (cuts []time.Duration) {
	from, to := f.troubleAt(by)
	for _, at := range []time.Duration{f.warmup, from, to} {
		if at > 0 && at < f.duration && (len(cuts) == 0 || at > cuts[len(cuts)-1]) {
			cuts = append(cuts, at)
		}
	}
	return cuts
}

// trouble is from the first fault or spike to the end of the last; equal without any.
func (f *File) trouble() (from, to time.Duration) { return f.troubleAt(asItIs) }

func (f *File) troubleAt(by scale) (from, to time.Duration) {
	if f.during.to > 0 {
		longer := float64(float64(f.during.to-f.during.from) * by.trigger)
		return f.during.from, min(f.during.from+time.Duration(longer), f.duration)
	}
	from = f.duration
	add := func(at, end time.Duration) { from, to = min(from, at), max(to, min(end, f.duration)) }
	for i := range f.faults {
		x := &f.faults[i]
		lasts := by.length(&x.fault)
		add(time.Duration(x.At), lastOf(time.Duration(x.At), lasts, time.Duration(x.Every), time.Duration(x.Until), f.duration)+lasts)
	}
	for _, c := range f.fleets {
		for _, s := range c.steps {
			if s.For > 0 {
				add(time.Duration(s.At), s.last(f.duration)+time.Duration(s.For))
			}
		}
	}
	if to == 0 {
		return f.duration, f.duration
	}
	return from, max(to, from)
}

// length is how long a fault lasts on a map.
func (by scale) length(x *fault) time.Duration {
	lasts := time.Duration(float64(float64(x.For) * by.trigger))
	if x.Every > 0 {
		lasts = min(lasts, time.Duration(x.Every)-1)
	}
	return lasts
}

// lowering turns what a file says into a world.
type lowering struct {
	file  *File
	side  *Policies
	by    scale
	rules map[string]*machine.Rules
	used  []Policy

	repeats map[string]*outcome.Repeats // of another system's lists
	given   bool                        // some policy is of the side's file
	lacks   []string                    // and these are not
	keyed   map[string]bool             // policies that require a key and are of production, whose callers then give one

	fixed map[string]bool // policies that are the scenario's on every side

	special bool // some policy says more than how long and what is safe
	err     error
}

// fixed are the policies that stay the scenario's whatever it is compared with.
func (f *File) fixed() map[string]bool {
	names := map[string]bool{}
	mark := func(calls []namedEdge) {
		for _, e := range calls {
			names[e.Policy] = names[e.Policy] || e.Fixed
		}
	}
	for i := range f.fleets {
		mark(f.fleets[i].calls)
	}
	for i := range f.services {
		mark(f.services[i].calls)
	}
	return names
}

// policy returns the policy of a name, the file that it is from, and its name there.
func (l *lowering) policy(name string) (p policy.Policy, from *config.File, called string) {
	called = name
	if p, ok := l.file.policies.Policies[name]; ok && l.fixed[name] {
		return p, l.file.policies, name
	}
	if as, ok := l.side.As[name]; ok {
		called = as
	}
	if f := l.side.File; f != nil {
		if p, ok := f.Policies[called]; ok {
			l.given = true
			return p, f, called
		}
		if called != name && l.err == nil {
			l.err = fmt.Errorf("%s has no dependency %q: %s", f.Name, called, oneOf(called, f.Names()))
		}
		l.lacks = append(l.lacks, name)
	}
	if p, ok := l.file.policies.Policies[name]; ok {
		return p, l.file.policies, name
	}
	if l.err == nil {
		l.err = fmt.Errorf("nothing says by which policy %q is called: add it to %s under policies, or name a dependency of a file for it", name, l.file.Name)
	}
	return policy.Policy{}, nil, name
}

// settingsOf spells a policy by the reader's own means.
func settingsOf(p policy.Policy) (settings []policy.Setting) {
	f := &config.File{Name: "built in", Policies: map[string]policy.Policy{"x": p}}
	for _, s := range f.Explain("x") {
		s.Source, s.Why = "built in", ""
		settings = append(settings, s)
	}
	return settings
}

// The rivals: callers without gabion, in the time that the policy gives a call. They
// make no keys and ask for none, and send those that their callers give.
const (
	rivalNone  = "none"  // one try, with no timeout but the call's
	rivalPlain = "plain" // one try, with the same timeouts of the call and of the attempt
	rivalNaive = "naive" // three tries at once, of whatever it is: it does not ask whether that is safe
)

// rivals are the words for them.
var rivals = []string{rivalNone, rivalPlain, rivalNaive}

// rival makes of a policy what a rival does.
func rival(p policy.Policy, which string) (policy.Policy, bool) {
	attempt := p.Timeout.Attempt // for the last attempt, too
	bare := policy.Policy{
		Trust: p.Trust, Safe: p.Safe,
		Timeout:  policy.Timeout{Call: p.Timeout.Call, Attempt: attempt, Last: attempt, Strict: true, Margin: policy.Off},
		Retry:    policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}},
		Pace:     policy.Pace{Off: true},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Off: true},
	}
	switch which {
	case rivalPlain:
		return bare, true
	case rivalNone:
		bare.Timeout.Attempt, bare.Timeout.Last = policy.Off, policy.Off
		return bare, true
	case rivalNaive:
		bare.Safe = true
		bare.Retry.Attempts, bare.Retry.Backoff = 3, backoff.Const(time.Millisecond)
		return bare, true
	}
	return p, false
}

// hash names the policies in force, secrets included but not shown.
func (l *lowering) hash() string {
	var b strings.Builder
	for _, p := range l.used {
		if r := l.rules[p.Name]; r != nil {
			fmt.Fprintf(&b, "%s %+v\n", p.Name, r.Policy)
			if own := l.repeats[p.Name]; own != nil {
				fmt.Fprintf(&b, "%+v\n", *own)
			}
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:6])
}

// seed returns the seed of a replication.
func (f *File) seedOf(seed uint64, replication int) uint64 {
	s := draw.New(seed, forReplications, uint64(replication))
	return s.Bits()
}

// forReplications is the purpose of the draws that seeds are made of; the world's
// own purposes are small numbers.
const forReplications draw.Purpose = 1 << 32
