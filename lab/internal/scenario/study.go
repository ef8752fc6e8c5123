// Package scenario is a world in a file, the runs of it, and what they came to.
//
// [Parse] reads a file, strictly; [File.Run] runs its world many times over and
// reduces the runs to a [Study]. The same file, policies and seed give the same
// Study, byte by byte, whatever the number of workers.
package scenario

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/lab/internal/stat"
	"github.com/gabion-go/gabion/policy"
)

// StudyVersion is the version of a Study's JSON. A key that is added does not
// change it; one that is removed, or means something else, does.
const StudyVersion = 2

// Study is what the runs of a scenario came to. Times are seconds, rates are per
// second, shares are parts of one; all numbers are rounded to six digits. It is not
// changed once it is made.
type Study struct {
	Version      int            `json:"version"`
	Name         string         `json:"name"`
	Title        string         `json:"title"`
	Story        string         `json:"story"`
	Text         string         `json:"text"` // the scenario's file
	Seed         uint64         `json:"seed"`
	Replications int            `json:"replications"`
	Duration     float64        `json:"duration"` // how long load is offered
	Warmup       float64        `json:"warmup"`   // of it, what does not count
	Bin          float64        `json:"bin"`      // the width of a bin of the series
	Capacity     []float64      `json:"capacity"` // in each bin, the work that clients could get done; -1 means unbounded
	Bottleneck   string         `json:"bottleneck"`
	Marks        []Mark         `json:"marks"`      // what goes wrong, and when
	During       [2]float64     `json:"during"`     // from the first trouble to the end of the last; equal without trouble
	Sides        []Side         `json:"sides"`      // one; or two that are compared and the plain client, where it is neither of them
	Diffs        []Diff         `json:"diffs"`      // the second side against the first
	Judgements   []Judgement    `json:"judgements"` // who wins, of each two sides
	Settings     []SettingDiff  `json:"settings"`
	Map          *Map           `json:"map,omitempty"`
	Timeline     []TimelineLine `json:"timeline,omitempty"`
	Recorded     []Recorded     `json:"-"`           // in the order of the sides
	Warnings     []string       `json:"warnings"`    // what makes the comparison doubtful, such as a load above the capacity before anything goes wrong
	Assumptions  []string       `json:"assumptions"` // what is not modelled
	Events       uint64         `json:"events"`      // of all runs
	Hash         string         `json:"hash"`        // of all events of all runs, in order
	Command      string         `json:"command"`     // what reproduces this
}

// Mark is a time in which something is wrong, or the load is unusual.
type Mark struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Kind string  `json:"kind"` // as the file spells it: errors, slow, …; load for a spike
	Of   string  `json:"of"`   // the service, or the fleet
	Text string  `json:"text"` // such as "80% of db answers 503"
}

// Side is what one set of policies came to.
type Side struct {
	Name     string     `json:"name"`   // the file as it was given, a rival's word, "defaults", or the scenario's for policies of its own
	Config   string     `json:"config"` // a hash of its effective policies
	Runs     []Run      `json:"runs"`   // in the order of their seeds
	Series   Series     `json:"series"`
	Heads    []Headline `json:"heads"`           // by which it is judged
	Metrics  []Metric   `json:"metrics"`         // of the whole run after the warm-up
	Phases   []Phase    `json:"phases"`          // before, during, after; one when nothing goes wrong
	Stuck    Estimate   `json:"stuck"`           // the probability of staying down
	Modes    *TwoModes  `json:"modes,omitempty"` // of the goodput after the trouble, when runs end in two ways
	Asserts  []Verdict  `json:"asserts"`         // in the order of the file
	Worst    []Cause    `json:"worst"`           // what hurt, most first
	Broken   []string   `json:"broken"`          // invariants of the simulation that did not hold; always empty
	Policies []Policy   `json:"policies"`        // what each edge goes by
}

// Policy is the effective policy of an edge's callee.
type Policy struct {
	Name     string           `json:"name"`             // of the dependency, as the scenario calls it
	Called   string           `json:"called,omitempty"` // its name in the source, where that is another
	Source   string           `json:"source"`           // the file that it stands in
	Settings []policy.Setting `json:"settings"`         // without why a default is what it is
}

// SettingDiff is a setting that differs between the sides.
type SettingDiff struct {
	Policy string `json:"policy"`
	Path   string `json:"path"`
	A      string `json:"a"`
	B      string `json:"b"`
}

// Run is one replication.
type Run struct {
	Seed   uint64 `json:"seed"`
	Hash   string `json:"hash"`
	Events uint64 `json:"events"`
	Stuck  bool   `json:"stuck"`
}

// Units of a metric.
const (
	Share   = "share"   // of one
	Ratio   = "ratio"   // to one
	Seconds = "seconds" // a duration
	Count   = "count"
)

// Metric is a number of each run, and what they say together.
type Metric struct {
	Key    string    `json:"key"`          // as an assertion names it: goodput, amplification, …
	Of     string    `json:"of,omitempty"` // the service or fleet; empty means all
	Name   string    `json:"name"`         // for people
	Unit   string    `json:"unit"`
	More   bool      `json:"more_is_better"`
	Mean   Estimate  `json:"mean"`   // of runs; of recovery and its like, the median
	Values []Number  `json:"values"` // in the order of seeds; null is never, or unknown
	Modes  *TwoModes `json:"modes,omitempty"`
}

// TwoModes is there when runs fall into two heaps, and a mean stands for nothing.
type TwoModes struct {
	Low         float64 `json:"low"`
	High        float64 `json:"high"`
	ShareOfHigh float64 `json:"share_of_high"`
}

// Phase is a part of a run.
type Phase struct {
	Name    string   `json:"name"` // before, during, after; all
	From    float64  `json:"from"`
	To      float64  `json:"to"`
	Metrics []Metric `json:"metrics"`
	Ended   []Ending `json:"ended"` // how the calls of clients ended, most frequent first
}

// Ending is a reason for which calls ended, and their share of the calls.
type Ending struct {
	Reason string  `json:"reason"` // "ok" for success
	Local  bool    `json:"local"`  // refused by gabion, without an attempt
	Share  float64 `json:"share"`
}

// Series is what happened over time: each band has one point for each bin.
type Series struct {
	Offered  Band            `json:"offered"`  // pieces of work that clients began, per second
	Goodput  Band            `json:"goodput"`  // that ended well and in time
	Late     Band            `json:"late"`     // that ended well, too late
	Bad      Band            `json:"bad"`      // that failed
	Refused  Band            `json:"refused"`  // calls that gabion refused without an attempt
	Attempts Band            `json:"attempts"` // on all services
	ByTry    []Band          `json:"by_try"`   // the same by number of the try; the last counts all later ones
	P50      Band            `json:"p50"`      // how long what was answered took; 0 where nothing was
	P90      Band            `json:"p90"`
	P99      Band            `json:"p99"`
	Services []ServiceSeries `json:"services"`
	Edges    []EdgeSeries    `json:"edges"`
}

// ServiceSeries is what happened at one service.
type ServiceSeries struct {
	Name     string    `json:"name"`
	Attempts Band      `json:"attempts"`
	Useful   Band      `json:"useful"`   // share of its workers' time that went into answers that a caller waited for
	Queue    Band      `json:"queue"`    // who waited at the bin's end
	Capacity []float64 `json:"capacity"` // requests per second that it could serve; -1 means unbounded
}

// EdgeSeries is what the callers on one edge knew.
type EdgeSeries struct {
	Caller  string `json:"caller"`
	Service string `json:"service"`
	Policy  string `json:"policy"`
	Open    Band   `json:"open"`   // share of breakers that were open
	Budget  Band   `json:"budget"` // re-sends that a caller's budget allowed, on average

	// Unbudgeted is set where callers have no retry budget, and Budget says nothing.
	Unbudgeted bool `json:"unbudgeted,omitempty"`

	// Unguarded is set where callers have no breaker, and Open says nothing.
	Unguarded bool `json:"unguarded,omitempty"`
}

// Band is a value over time: the middle run, and where nine of ten runs lie.
type Band struct {
	Mid  []float64 `json:"mid"`
	Low  []float64 `json:"low"`
	High []float64 `json:"high"`
}

// Verdict is an assertion and what the runs say of it.
type Verdict struct {
	Text     string   `json:"text"`         // as the file says it
	Of       string   `json:"of,omitempty"` // the service or fleet that it names
	Measured Estimate `json:"measured"`
	Unit     string   `json:"unit"`
	Holds    Holds    `json:"holds"`

	// Breaks is the share of runs each of which breaks it alone. All of them do so of
	// one that does not hold although there are too few runs for an interval.
	Breaks Estimate `json:"breaks"`
}

// Holds says whether an assertion holds.
type Holds string

// What may become of an assertion.
const (
	Yes    Holds = "yes"
	No     Holds = "no"
	Unsure Holds = "unresolved" // the interval reaches to both sides: more replications would tell
)

// Cause is something that cost clients answers, or services work.
type Cause struct {
	Text  string  `json:"text"`
	Of    string  `json:"of"`    // the service
	Phase string  `json:"phase"` // where it was worst: before, during, after; all when nothing goes wrong
	Share float64 `json:"share"` // in that phase, of the calls that clients began, or of the work done
}

// Diff is a metric on both sides, with the same random numbers.
type Diff struct {
	Key     string   `json:"key"`
	Of      string   `json:"of,omitempty"`
	Name    string   `json:"name"`
	Phase   string   `json:"phase"` // all, before, during, after
	Unit    string   `json:"unit"`
	A       Estimate `json:"a"`
	B       Estimate `json:"b"`
	Delta   Estimate `json:"delta"`   // b − a, in pairs
	Verdict string   `json:"verdict"` // better, worse, unresolved: b against a
}

// Map is where runs stay down: for each load and trigger, the probability of it.
type Map struct {
	Loads        []float64 `json:"loads"`    // as a multiple of the scenario's load
	Triggers     []float64 `json:"triggers"` // as a multiple of how long the faults last, and of a spike's height
	Replications int       `json:"replications"`
	Cells        [][]Cell  `json:"cells"`             // by trigger, then by load
	Against      [][]Cell  `json:"against,omitempty"` // of the second side
}

// Cell is one point of a map.
type Cell struct {
	Stuck   Estimate `json:"stuck"`
	Goodput Number   `json:"goodput"` // after the trigger, on average; null is unknown
}

// TimelineLine is one decision about one client's calls.
type TimelineLine struct {
	At   float64 `json:"at"`
	Call uint64  `json:"call"`
	Of   string  `json:"of"` // the edge: caller → service
	Text string  `json:"text"`

	// Knows is what was known afterwards: the breaker, what it has counted, and what
	// the retry budget has left. Only the last of several decisions at once has it.
	Knows string `json:"knows,omitempty"`
}

// Number is a number that may be infinite or unknown, which JSON calls null.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(f)
}

// UnmarshalJSON implements json.Unmarshaler. Null becomes infinite.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// Estimate is a value and where the truth lies with 95 % confidence. A side that
// is not bounded is infinite, and null in JSON.
type Estimate struct{ stat.Interval }

// MarshalJSON implements json.Marshaler.
func (e Estimate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Value Number `json:"value"`
		Low   Number `json:"low"`
		High  Number `json:"high"`
	}{Number(e.Value), Number(e.Low), Number(e.High)})
}

// estimate rounds an interval.
func estimate(i stat.Interval) Estimate {
	return Estimate{stat.Interval{Value: round6(i.Value), Low: round6(i.Low), High: round6(i.High)}}
}

// round6 keeps six digits: what differs beyond them between machines, because some
// fuse a product with a sum, is no news.
func round6(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) || x == math.Trunc(x) && math.Abs(x) < 1e6 {
		return x
	}
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// seconds is a duration in a Study.
func seconds(d time.Duration) float64 { return round6(d.Seconds()) }

// Tries is how many tries a series tells apart.
const Tries = sim.Tries
