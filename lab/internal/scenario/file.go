package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// Version is the version of the file format that this package reads.
const Version = 1

// document is the shape of a file.
type document struct {
	// Version of the file's format.
	Version int

	// Title is one line for lists.
	Title string

	// Story says what happens, and what to look at.
	Story string

	// Seed is what all randomness comes from. Left out, it means 1.
	Seed whole

	// Replications is how often the world is run, each time with other draws. Left
	// out, it means 20.
	Replications whole

	// Duration is how long load is offered.
	Duration span

	// Warmup is how much of it does not count.
	Warmup span

	// Drain is how long what is under way at the end may take. Left out, it means
	// 30s.
	Drain span

	// Bin is the width of a bin of the series. Left out, it means a second, or a
	// six-hundredth of the duration when that is longer.
	Bin span

	// During is what counts as the time of trouble, such as 2m..3m. Left out, it
	// reaches from the first fault or spike to the end of the last.
	During window

	// Policies are by the name of the dependency, in the syntax of the production
	// file's dependencies. A production file replaces them by name.
	Policies yamlstrict.Node

	// Against is what to compare with: none, which only calls; naive, which tries
	// three times at once; or policies.
	Against yamlstrict.Node

	// Clients are the fleets by name.
	Clients map[string]yamlstrict.Node

	// Services are by name.
	Services map[string]yamlstrict.Node

	// Faults are what goes wrong, and when.
	Faults []yamlstrict.Node

	// Assert is what must hold, such as amplification(db) <= 1.2 during faults.
	Assert []yamlstrict.Node

	// Map is what a vulnerability map looks at.
	Map mapping
}

// mapping is the grid of a vulnerability map.
type mapping struct {
	// Load is in multiples of the scenario's load.
	Load []percent

	// Trigger is in multiples of how long the faults last, and of the height of
	// spikes.
	Trigger []percent

	// Replications is how many runs each cell gets. Left out, it means 10.
	Replications whole
}

// fleet is clients that are alike.
type fleet struct {
	// Count is how many there are.
	Count whole

	// Loop says when a client makes its next call: open, as the load says; closed,
	// after the one before has ended; trace, at the times that the trace says. Left
	// out, it means open.
	Loop loopWord

	// Rate is the pieces of work that the fleet begins, such as 100/s.
	Rate rate

	// Load is how the rate changes.
	Load []yamlstrict.Node

	// Daily makes the rate rise and fall.
	Daily daily

	// Even makes calls come at equal distances. Left out, they are a Poisson
	// process.
	Even bool

	// Trace is when calls are made, for the loop trace.
	Trace []instant

	// Think is how long a client of a closed loop waits between calls.
	Think dist

	// Spread is over how long the clients of a closed loop start.
	Spread span

	// Session is after how many calls a client is replaced by one that knows
	// nothing. Left out, it means never.
	Session whole

	// Shared is how many clients share what is known of a dependency, as behind a
	// sidecar.
	Shared whole

	// Deadline is when an answer is too late to be of use.
	Deadline span

	// Calls are made one after the other for each piece of work.
	Calls []yamlstrict.Node
}

// daily is a rate that rises and falls as a sine does.
type daily struct {
	// Period is how long rising and falling take. Left out, it means 24h.
	Period span

	// Swing is how far the rate goes above and below, as a share of it.
	Swing share

	// Peak is when it is highest. Left out, it means a quarter of the period.
	Peak instant
}

// loadStep is a change of the rate.
type loadStep struct {
	// At is when it begins.
	At instant

	// Rate is the new rate.
	Rate rate

	// Times is the new rate, as a multiple of the fleet's.
	Times factor

	// Ramp is how long the change takes.
	Ramp span

	// For is how long it lasts: a spike. Left out, it stays.
	For span

	// Every makes a spike come again.
	Every span

	// Until is the last time that it may come. Left out, it means the end.
	Until span
}

// edge is who is called, and how.
type edge struct {
	// To is the service.
	To string

	// Policy is the name of the dependency whose policy is used. Left out, it is
	// that of the service.
	Policy string

	// Fan is how many calls are made at once. Left out, it means 1.
	Fan whole

	// Quorum is how many of them must succeed. Left out, it means all.
	Quorum whole

	// Chance is how often the call is made at all. Left out, it means always.
	Chance share

	// Network is how long a message takes, one way.
	Network dist

	// Loss is the share of messages that are lost, each way.
	Loss share

	// Unsafe is for calls that may not be repeated.
	Unsafe bool

	// Keyed is for calls with an idempotency key, which makes them safe.
	Keyed bool

	// Propagate sends the deadline along.
	Propagate bool

	// Priority is low, normal or high.
	Priority urgentWord
}

// service answers calls.
type service struct {
	// Replicas is how many instances there are. Left out, it means 1.
	Replicas whole

	// Balance says which replica gets an attempt: random, round_robin, two_choices
	// or least_busy. Left out, it means random.
	Balance balanceWord

	// Workers is how many requests a replica works on at once. Left out, it means
	// that nobody ever waits.
	Workers whole

	// Queue is how many may wait at a replica; the next is refused. Left out, it
	// means none.
	Queue whole

	// Order says who is served next: fifo, lifo, codel or priority. Left out, it
	// means fifo.
	Order orderWord

	// Target is how long waiting is fine, for codel. Left out, it means 5ms.
	Target span

	// Interval is for how long more is tolerated, for codel. Left out, it means
	// 100ms.
	Interval span

	// DropExpired does no work for callers whose deadline has passed, as far as
	// deadlines are propagated.
	DropExpired bool

	// Time is how long the work itself takes.
	Time dist

	// ByCall makes what is slow for one attempt slow for all attempts of its call.
	ByCall bool

	// Crowd is how much longer work takes for each request under way.
	Crowd percent

	// RefuseCost is what refusing costs, as a share of the work.
	RefuseCost percent

	// HonoursKeys answers a call that was answered before without doing the work
	// again.
	HonoursKeys bool

	// StopsRetries says "do not retry" to callers when a service below has failed.
	StopsRetries bool

	// Limit is its rate limit.
	Limit limit

	// Deadline bounds the calls that it makes in turn.
	Deadline span

	// Calls are made in turn, after its own work, while the worker waits.
	Calls []yamlstrict.Node
}

// limit is a rate limit of a service.
type limit struct {
	// Rate is the requests that are let through.
	Rate rate

	// Burst is how many may come at once. Left out, it means 1.
	Burst whole

	// RetryAfter is what a refusal says of when to come again. Left out, it says
	// nothing.
	RetryAfter span

	// Exact says when there will be room instead.
	Exact bool

	// PerCaller gives each client the whole rate.
	PerCaller bool
}

// fault is something that goes wrong for a while.
type fault struct {
	// Kind is what goes wrong: down, black_hole, reset, brown_out, slow, errors,
	// lost_answers, rate_limit, restart, restart_clients, clock_skew or reload.
	Kind kindWord

	// At is when it begins.
	At instant

	// For is how long it lasts.
	For span

	// Ramp is how long it takes to grow to its full size, and to fall again; of a
	// restart, how long work is slow afterwards.
	Ramp span

	// Every makes it come again: down with every flaps.
	Every span

	// Until is the last time that it may come. Left out, it means the end.
	Until span

	// Service is where it is.
	Service string

	// Clients is the fleet, for restart_clients and reload.
	Clients string

	// Replicas is how many of them have it. Left out, it means all.
	Replicas whole

	// Share is how many requests meet it. Left out, it means all.
	Share share

	// Factor is the capacity that a brown_out leaves, or how many times longer slow
	// work takes.
	Factor factor

	// Add is how much longer slow work takes, or how far clocks are off.
	Add span

	// Status is what errors answer: 429, 500 or 503. Left out, it means 503, or 500
	// with after_work.
	Status whole

	// RetryAfter is what errors say of when to come again.
	RetryAfter span

	// AfterWork makes errors come when the work was done.
	AfterWork bool

	// Limit is the rate limit of a rate_limit.
	Limit limit

	// Policy is the name of the policy that a reload changes to.
	Policy string
}

// File is a scenario without mistakes. It is not changed once it is made, and safe
// for concurrent use.
type File struct {
	Name         string // as it was given to Parse
	Title        string
	Story        string
	Text         string
	Seed         uint64
	Replications int

	warmup, duration, drain, bin time.Duration

	during   window
	fleets   []namedFleet
	services []namedService
	order    []int // of services: callers before those they call
	faults   []namedFault
	asserts  []assertion
	grid     grid
	policies *config.File
	against  *config.File
	rival    string // none or naive, when it is a word
}

// Fleets returns the names of the fleets, in the order of the file.
func (f *File) Fleets() []string {
	names := make([]string, len(f.fleets))
	for i, c := range f.fleets {
		names[i] = c.name
	}
	return names
}

type namedFleet struct {
	fleet
	name  string
	steps []loadStep
	calls []namedEdge
}

type namedService struct {
	service
	name  string
	calls []namedEdge
}

type namedEdge struct {
	edge
	to int
}

type namedFault struct {
	fault
	kind    sim.Kind
	service int
	fleet   int
}

type grid struct {
	loads, triggers []float64
	replications    int
}

// Finding is one mistake in a file.
type Finding = yamlstrict.Finding

// Findings are all mistakes of a file. It is the type of the error that [Parse]
// returns.
type Findings = yamlstrict.Findings

// nameForm keeps names usable in assertions, in paths and on command lines.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)

// The bounds of a file. Beyond them a run would not end while somebody waits.
const (
	maxParts  = 100     // fleets, services, faults, assertions
	maxBins   = 100_000 // of a series
	maxVisits = 10_000  // of all services, for one piece of work
	maxWork   = 1e9     // pieces of work in a run
	maxCells  = 400     // of a map
)

// Parse reads the text of a file; name is for messages. The error is of type
// [Findings].
func Parse(name string, data []byte) (*File, error) {
	asserting := &vocabulary{}
	scalars := spellings()
	scalars[assertionType] = yamlstrict.Scalar{Parse: asserting.parse}
	doc, found := yamlstrict.Parse(name, data, yamlstrict.Options{Scalars: scalars})
	if len(found) > 0 {
		return nil, found
	}
	r := reader{doc: doc, words: asserting, text: string(data), file: &File{Name: name, Text: string(data)}}
	r.read()
	if len(r.found) > 0 {
		return nil, r.found.Sort()
	}
	return r.file, nil
}

// reader turns a document into a file.
type reader struct {
	doc    *yamlstrict.Document
	text   string
	file   *File
	words  *vocabulary
	places map[string]yamlstrict.Place // of the document's own keys
	found  Findings
}

func (r *reader) fail(at yamlstrict.Place, reason, proposal string) {
	r.found = append(r.found, r.doc.Finding(at.Line, at.Col, reason, proposal))
}

func (r *reader) read() {
	var d document
	places, found := r.doc.Decode(&d)
	r.places, r.found = places, append(r.found, found...)
	r.head(&d)
	r.policies(&d)
	for _, name := range r.names("services", d.Services) {
		r.file.services = append(r.file.services, namedService{name: name})
	}
	if len(d.Services) == 0 && !places["services"].Wrong {
		r.fail(places["services"], "there are no services", "write services: {db: {workers: 10, time: exp 20ms}}")
	}
	for i := range r.file.services {
		r.service(&r.file.services[i], d.Services[r.file.services[i].name])
	}
	for _, name := range r.names("clients", d.Clients) {
		r.fleet(name, d.Clients[name])
	}
	if len(d.Clients) == 0 && !places["clients"].Wrong {
		r.fail(places["clients"], "there are no clients", "write clients: {shop: {count: 100, rate: 100/s, calls: [{to: db}]}}")
	}
	r.acyclic(d.Services)
	r.many("faults", len(d.Faults))
	for _, node := range d.Faults {
		r.fault(node)
	}
	r.grid(&d.Map)
	if len(r.found) > 0 {
		return // assertions name what may have gone missing
	}
	r.bounds()
	r.many("assert", len(d.Assert))
	r.words.know(r.file)
	for _, node := range d.Assert {
		r.assertion(node)
	}
}

// names returns the names of a section in the order of the file.
func (r *reader) names(section string, nodes map[string]yamlstrict.Node) []string {
	names := make([]string, 0, len(nodes))
	for name, node := range nodes {
		names = append(names, name)
		if !nameForm.MatchString(name) {
			r.fail(node.Key, fmt.Sprintf("%.60q is not a name", name), "write lower-case letters, digits, - and _, at most 40")
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := nodes[a].Key, nodes[b].Key
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Col, y.Col), cmp.Compare(a, b))
	})
	r.many(section, len(names))
	return names
}

func (r *reader) many(section string, n int) {
	if n > maxParts {
		r.fail(r.places[section], fmt.Sprintf("%d entries under %s", n, section), fmt.Sprintf("a file may have %d", maxParts))
	}
}

// head reads what is about the file as a whole.
func (r *reader) head(d *document) {
	f := r.file
	f.Title, f.Story = strings.TrimSpace(d.Title), strings.TrimSpace(d.Story)
	f.Seed, f.Replications = uint64(max(d.Seed, 1)), int(d.Replications)
	if f.Replications == 0 {
		f.Replications = 20
	}
	at, written := r.places["version"]
	switch {
	case !written:
		r.fail(at, "version is missing", fmt.Sprintf("begin with version: %d", Version))
	case d.Version != Version && !at.Wrong:
		r.fail(at, fmt.Sprintf("version %d is not known", d.Version), fmt.Sprintf("write version: %d, or use a newer gabion", Version))
	}
	if f.Title == "" && !r.places["title"].Wrong {
		r.fail(r.places["title"], "there is no title", "say in one line what happens")
	}
	f.duration, f.warmup, f.drain = time.Duration(d.Duration), time.Duration(d.Warmup), time.Duration(d.Drain)
	f.bin, f.during = time.Duration(d.Bin), d.During
	if f.drain == 0 {
		f.drain = 30 * time.Second
	}
	if f.bin == 0 {
		f.bin = max(time.Second, (f.duration / 600).Round(time.Second))
	}
	switch {
	case f.duration == 0 && !r.places["duration"].Wrong:
		r.fail(r.places["duration"], "there is no duration", "write duration: 10m")
	case f.warmup >= f.duration && f.duration > 0:
		r.fail(r.places["warmup"], "warmup is not shorter than the duration", "write less")
	case f.during.to > f.duration && f.duration > 0:
		r.fail(r.places["during"], "during ends after the load", "write less, or make the duration longer")
	case int64((f.duration+f.drain)/f.bin) > maxBins:
		r.fail(r.places["bin"], fmt.Sprintf("%d bins are too many", int64((f.duration+f.drain)/f.bin)), "write a wider bin, such as 1m")
	}
}

// policies reads what the edges go by when no production file is given.
func (r *reader) policies(d *document) {
	r.file.policies = r.section("policies", d.Policies)
	if at, written := r.places["against"]; written && at.Leaf {
		r.file.rival = at.Text
		if at.Text != "none" && at.Text != "naive" {
			r.fail(at, fmt.Sprintf("against: %.60q is not known", at.Text), "write none, naive, or policies")
		}
		return
	}
	r.file.against = r.section("against", d.Against)
}

// section reads policies by the reader of the production file, which is shown the
// file with nothing else in it, so that its findings have their places.
func (r *reader) section(key string, node yamlstrict.Node) *config.File {
	none := &config.File{Name: r.file.Name, Policies: map[string]policy.Policy{}}
	at, written := r.places[key]
	if !written || !node.Set() {
		return none
	}
	text, problem := only(r.text, key, at.Line)
	if problem != "" {
		r.fail(at, key+" "+problem, "give it lines of its own")
		return none
	}
	f, err := config.Parse(r.file.Name, []byte(text), config.Lookup(func(string) (string, bool) { return "", false }))
	var found config.Findings
	if errors.As(err, &found) {
		for _, x := range found {
			r.found = append(r.found, r.doc.Finding(x.Line, x.Col, key+": "+x.Reason, x.Proposal))
		}
		return none
	}
	return f
}

// only returns the text with the lines of one section, as the dependencies of a
// production file, and empty lines for all others.
func only(text, key string, line int) (kept, problem string) {
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	if line < 1 || line > len(lines) || strings.TrimRight(lines[line-1], " ") != key+":" {
		return "", "is not alone on its line"
	}
	section := make([]string, len(lines))
	section[line-1] = "dependencies:"
	for i := line; i < len(lines); i++ {
		if l := lines[i]; l != "" && !strings.ContainsAny(l[:1], " #") {
			break
		}
		section[i] = lines[i]
	}
	return strings.Join(section, "\n") + "\nversion: 1\n", ""
}
