// Package export writes policies as the files of other systems, and says what is lost.
//
// A format is a table. Each line says what becomes of one key of gabion's file: where it goes, whether
// that means the same, and what happens without it. The lines that hold for a policy make another
// one, of nothing but what the format can say, and that one is written. So the table and the text
// can't differ, and what the table calls lost is exactly what is.
//
// Nothing here looks at a clock, draws a number, opens a file or calls anything.
package export

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/policy"
)

// Format is a kind of file that is written.
type Format struct {
	Name    string // as command lines spell it
	Title   string // what it is, in a few words
	Comment string // what begins a comment; empty where the format has none
	Single  bool   // one file takes one dependency

	Mappings []Mapping

	// Note is what to know of every file of this format, beside the table.
	Note string

	write func(c *call) string
}

// Mapping is a line of a format's table.
type Mapping struct {
	ID     string // names the line's test
	Key    string // of gabion's file: a key, or a section for what no other line is about
	Target string // where it goes; empty where it goes nowhere
	Fate   foreign.Fate
	Text   string // how it differs, or what happens without it; %s are what args says
	Source string // the address of the document that says so

	usual bool // gives way to another line of its key

	when func(c *call) bool  // nil means always
	args func(c *call) []any // what stands for the %s of Text
	set  func(c *call)       // what it becomes, in c.comes; nil means that a key is taken as it is
}

// Dependency is what is written.
type Dependency struct {
	Name   string
	Host   string // where it is called; empty means its name
	Policy policy.Policy
}

// Export is what came of it.
type Export struct {
	Text string // the file, without a header
	Rows []Row  // in the order of the table

	// Comes is what the file says, as a policy: it has what was kept, and of the rest what the other
	// system does.
	Comes policy.Policy
}

// Row says what became of a key.
type Row struct {
	Mapping
	Value string // what the policy says, as files spell it; empty of sections
	Text  string // Mapping.Text with its numbers
}

// call is one policy on its way.
type call struct {
	Dependency
	p     policy.Policy // resolved, and in plain form
	comes policy.Policy
	text  string // what the line that is at work has to add
	near  bool   // the line that is at work kept its value nearly
}

// Formats returns all formats, in the order in which to show them. Callers may change the list.
func Formats() []*Format {
	return []*Format{istio(), envoy(), gatewayAPI(), linkerd(), dapr(), grpc()}
}

// Names returns the names of all formats.
func Names() (names []string) {
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return names
}

// Find returns the format of a name, or says which one was most likely meant.
func Find(name string) (*Format, error) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("there is no format %.60q: %s", name, suggest.For(name, Names(), "there are "+strings.Join(Names(), ", ")))
}

// Write writes a dependency.
func (f *Format) Write(d Dependency) Export {
	d.Host = cmp.Or(d.Host, d.Name)
	c := &call{Dependency: d, p: plain(d.Policy)}
	c.comes = nothing(c.p)
	rows := make([]Row, 0, len(f.Mappings))
	for i := range f.Mappings {
		m := f.Mappings[i]
		if m.when != nil && !m.when(c) || m.usual && slices.ContainsFunc(rows, func(r Row) bool { return r.Key == m.Key }) {
			continue
		}
		c.text, c.near = "", false
		switch {
		case m.set != nil:
			m.set(c)
		case m.Fate == foreign.Kept:
			c.keep(m.Key)
		}
		if c.near {
			m.Fate = foreign.Nearly
		}
		rows = append(rows, Row{Mapping: m, Value: valueAt(c.p, m.Key), Text: c.text})
	}
	for i, r := range rows {
		if r.Text == "" && r.Mapping.Text != "" {
			var args []any
			if r.args != nil {
				args = r.args(c)
			}
			rows[i].Text = fmt.Sprintf(r.Mapping.Text, args...)
		}
	}
	return Export{Text: f.write(c), Rows: c.real(rows), Comes: c.comes}
}

// real drops the lines of losses that this policy does not have.
func (c *call) real(rows []Row) []Row {
	hit := map[string]bool{}
	p := c.p
	hit["hedge"] = p.Hedge.Max > 0
	hit["retry.attempts"] = p.Retry.Attempts > 1 && c.comes.Retry.Attempts <= 1
	if p.Hedge = (policy.Hedge{}); hit["retry.attempts"] {
		p.Retry.Attempts = 1
	}
	p = plain(p) // what is said of retries and hedges says nothing without them
	for _, path := range differing(p, plain(c.comes)) {
		hit[owner(rows, path)] = true
	}
	return slices.DeleteFunc(rows, func(r Row) bool { return r.Fate == foreign.Lost && !hit[r.Key] })
}

// owner is the key of the line that is about a path: the most exact one.
func owner(rows []Row, path string) (best string) {
	for i := range rows {
		key := rows[i].Key
		if strings.HasPrefix(path, key) && (len(path) == len(key) || path[len(key)] == '.') && len(key) > len(best) {
			best = key
		}
	}
	return best
}

// keep takes a key as it is. Times get whole milliseconds, which all formats can say.
func (c *call) keep(key string) {
	if key == "timeout.attempt" { // no other system tells the last attempt from others
		c.comes.Timeout.Last = inMillis(c.p.Timeout.Attempt)
	}
	from, to := fieldAt(reflect.ValueOf(c.p), key), fieldAt(reflect.ValueOf(&c.comes).Elem(), key)
	to.Set(from)
	if d, is := from.Interface().(time.Duration); is && d > 0 && d != inMillis(d) {
		to.SetInt(int64(inMillis(d)))
		c.near, c.text = true, "it becomes "+policy.FormatDuration(inMillis(d))+", in whole milliseconds"
	}
}

// inMillis rounds a time up to whole milliseconds.
func inMillis(d time.Duration) time.Duration {
	if rest := d % time.Millisecond; rest > 0 {
		return d + time.Millisecond - rest
	}
	return d
}

// nothing is a policy that sends one attempt, and has nothing else. It is what a format says that
// says nothing.
func nothing(p policy.Policy) policy.Policy {
	n := foreign.Undivided(foreign.Bare(policy.Policy{Safe: p.Safe}, 1, backoff.Backoff{}))
	n.Timeout.Call, n.Timeout.Idle, n.Timeout.HopMargin = policy.Off, policy.Off, policy.Off
	n.Retry.Hold, n.Partitions = policy.Off, policy.Partitions{}
	after := n.Retry.MaxAfter
	n = plain(n)
	n.Retry.MaxAfter = after // which counts as soon as a format has retries
	return n
}

// plain is a policy with all of its defaults. What has no effect is empty, so that policies that do the
// same are the same.
func plain(p policy.Policy) policy.Policy {
	p = p.Resolved().Clone()
	for _, list := range []*[]int{&p.HTTP.Transient, &p.HTTP.Permanent} {
		slices.Sort(*list)
	}
	for _, list := range []*[]policy.GRPCCode{&p.GRPC.Transient, &p.GRPC.Permanent} {
		slices.Sort(*list)
	}
	if p.Hedge.Off || p.Hedge.Max <= 0 {
		p.Hedge = policy.Hedge{}
	}
	if p.Retry.Attempts <= 1 && p.Hedge.Max == 0 {
		p.Retry.Budget = policy.Budget{Off: true}
	}
	if p.Retry.Attempts <= 1 {
		p.Retry.Backoff, p.Retry.Immediate, p.Retry.Hold = backoff.Backoff{}, false, policy.Off
	}
	if b := &p.Retry.Backoff; b.Base < 0 {
		*b = backoff.Const(0)
	} else if b.Kind == backoff.Constant {
		*b = backoff.Const(min(b.Base, b.Cap))
	}
	if p.Retry.Contention.Attempts <= 1 {
		p.Retry.Contention = policy.ContentionRetry{Attempts: 1}
	}
	if p.Retry.Attempts <= 1 && p.Retry.Contention.Attempts <= 1 {
		p.Retry.MaxAfter = 0
		if p.Hedge.Max == 0 {
			p.Timeout.Margin, p.Timeout.Fit = policy.Off, 0
		}
	}
	if p.Retry.Budget.Off {
		p.Retry.Budget = policy.Budget{Off: true}
	}
	if p.Pace.Off {
		p.Pace = policy.Pace{Off: true}
	}
	if p.Throttle.Off || p.Throttle.K <= 0 {
		p.Throttle = policy.Throttle{}
	}
	if p.Breaker.Off {
		p.Breaker = policy.Breaker{Off: true}
	}
	if b := &p.Breaker; b.FailureRate <= 0 && b.Failures == 0 && (b.SlowRate <= 0 || b.SlowCall <= 0) {
		b.Window, b.WindowCalls, b.MinCalls = 0, 0, 0
	}
	if p.Breaker.OpenMax <= p.Breaker.Open {
		p.Breaker.OpenGrowth = 1
	}
	if p.Bulkhead.Off {
		p.Bulkhead = policy.Bulkhead{Off: true}
	}
	if p.Bulkhead.Queue == policy.Off {
		p.Bulkhead.QueueTimeout = policy.Off
	}
	if p.RateLimit.Off || p.RateLimit.Rate <= 0 && len(p.RateLimit.Quotas) == 0 {
		p.RateLimit = policy.RateLimit{}
	}
	if len(p.Endpoints.List) == 0 {
		p.Endpoints = policy.Endpoints{}
	}
	if !p.Fleet.Rate && !p.Fleet.Slots && !p.Fleet.Quotas && !p.Fleet.Budget {
		p.Fleet = policy.Fleet{}
	}
	p.Timeout.HopMargin = policy.Off // of the deadline that goes along, which trust is about
	if p.Timeout.Attempt <= 0 || p.Retry.Attempts <= 1 && p.Hedge.Max == 0 && p.Retry.Contention.Attempts <= 1 {
		p.Timeout.Strict, p.Timeout.Attempt = true, policy.Off
	}
	if p.Timeout.Call > 0 && p.Timeout.Last >= p.Timeout.Call {
		p.Timeout.Last = policy.Off
	}
	return p
}
