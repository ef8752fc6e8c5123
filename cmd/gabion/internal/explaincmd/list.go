package explaincmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// What is kept of a recording is bounded, however long it is.
const (
	shownCalls = 10
	maxOpen    = 100_000 // calls whose end has not been read
	maxEnds    = 10_000  // dependencies and reasons
	maxRuns    = 1_000
)

// callLine is a call that is worth a look. Its keys are part of the JSON's version.
type callLine struct {
	Call       string  `json:"call"`
	Dependency string  `json:"dependency"`
	Operation  string  `json:"operation,omitempty"`
	Began      string  `json:"began,omitempty"` // by the wall clock, if that is known
	Seconds    float64 `json:"seconds"`         // when it began, by the dependency's clock
	Took       float64 `json:"took"`            // in seconds
	Attempts   int     `json:"attempts"`
	Hedges     int     `json:"hedges"`
	Reason     string  `json:"reason"`
	Code       string  `json:"code,omitempty"`
}

// endLine is how often calls of a dependency failed for a reason. Its keys are part of the
// JSON's version.
type endLine struct {
	Dependency string `json:"dependency"`
	Reason     string `json:"reason"`
	Calls      int    `json:"calls"`
	First      string `json:"first"` // call
	Last       string `json:"last"`  // call
}

// runLine is one run of the program that wrote the recording.
type runLine struct {
	Run    int               `json:"run"`
	Header *recording.Header `json:"header,omitempty"`
}

// look is a list of calls, and why they are in it. Its keys are part of the JSON's
// version.
type look struct {
	Why   string     `json:"why"` // failed, retried, hedged or slowest
	Calls []callLine `json:"calls"`
}

// overview is what a recording holds. Its keys are part of the JSON's version.
type overview struct {
	Version int       `json:"version"`
	File    string    `json:"file"`
	Runs    []runLine `json:"runs"`
	Calls   int       `json:"calls"` // that ended
	Open    int       `json:"open"`  // whose end is not in the recording
	Failed  int       `json:"failed"`
	Retried int       `json:"retried"`
	Hedged  int       `json:"hedged"`
	Lost    int64     `json:"lost"` // events
	Ends    []endLine `json:"ends"`
	Look    []look    `json:"look"`

	run  int
	open map[recording.ID]bool
	ends map[[2]string]*endLine
}

func newOverview(file string) *overview {
	return &overview{
		Version: 1, File: file, Runs: []runLine{}, Ends: []endLine{}, open: map[recording.ID]bool{}, ends: map[[2]string]*endLine{},
		Look: []look{{"failed", []callLine{}}, {"retried", []callLine{}}, {"hedged", []callLine{}}, {"slowest", []callLine{}}},
	}
}

// take counts an entry.
func (o *overview) take(e *recording.Entry) {
	if o.run != e.Run {
		o.run = e.Run
		o.Open += len(o.open)
		clear(o.open)
		if len(o.Runs) < maxRuns {
			o.Runs = append(o.Runs, runLine{e.Run, e.Header})
		}
	}
	switch v := &e.Event; v.Kind {
	case policy.KindEventsLost:
		o.Lost += v.Count
	case policy.KindAttemptSent, policy.KindWaiting, policy.KindAttemptRefused:
		if v.Call != 0 && len(o.open) < maxOpen {
			o.open[e.ID()] = true
		}
	case policy.KindReturned:
		delete(o.open, e.ID())
		o.ended(e)
	}
}

// ended counts a call that is over.
func (o *overview) ended(e *recording.Entry) {
	v := &e.Event
	began := v.At.Add(-v.Took)
	c := callLine{
		Call: e.ID().String(), Dependency: v.Dependency, Operation: v.Operation, Began: clock(e, began), Seconds: began.Sub(0).Seconds(),
		Took: v.Took.Seconds(), Attempts: int(v.Attempt), Hedges: int(v.Hedges), Reason: v.Reason.String(), Code: v.Code,
	}
	o.Calls++
	failed, retried, hedged := v.Reason != policy.None, v.Attempt > v.Hedges+1, v.Hedges > 0
	for i, in := range []struct {
		is    bool
		count *int
	}{{failed, &o.Failed}, {retried, &o.Retried}, {hedged, &o.Hedged}, {true, new(int)}} {
		if in.is {
			*in.count++
			o.Look[i].add(c)
		}
	}
	if failed {
		o.end(&c)
	}
}

// end counts a failed call under its dependency and reason.
func (o *overview) end(c *callLine) {
	key := [2]string{c.Dependency, c.Reason}
	line := o.ends[key]
	if line == nil {
		if len(o.ends) == maxEnds {
			return
		}
		line = &endLine{Dependency: c.Dependency, Reason: c.Reason, First: c.Call}
		o.ends[key] = line
	}
	line.Calls++
	line.Last = c.Call
}

// add keeps a call if it is among the first: those with the most attempts, and then the
// slowest.
func (l *look) add(c callLine) {
	at := slices.IndexFunc(l.Calls, func(have callLine) bool {
		slower := cmp.Compare(c.Took, have.Took)
		if l.Why == "slowest" {
			return slower > 0
		}
		return cmp.Or(cmp.Compare(c.Attempts, have.Attempts), slower) > 0
	})
	if at < 0 {
		at = len(l.Calls)
	}
	l.Calls = slices.Insert(l.Calls, at, c)
	l.Calls = l.Calls[:min(len(l.Calls), shownCalls)]
}

func (r *request) explainFile(name string) error {
	o := newOverview(shown(name))
	failed := r.read(name, o.take)
	if o.run == 0 && failed != nil {
		return failed
	}
	o.finish()
	if r.json {
		return cmp.Or(cli.WriteJSON(r.stdout, o), failed)
	}
	return cmp.Or(r.print(o.text()), failed)
}

// finish counts what is left open, orders the ends, and names calls without their run
// where there is one run.
func (o *overview) finish() {
	o.Open += len(o.open)
	for _, end := range slices.SortedFunc(maps.Values(o.ends), func(a, b *endLine) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Dependency, b.Dependency), cmp.Compare(a.Reason, b.Reason))
	}) {
		o.Ends = append(o.Ends, *end)
	}
	if o.run > 1 {
		return
	}
	for i := range o.Ends {
		o.Ends[i].First, o.Ends[i].Last = strings.TrimPrefix(o.Ends[i].First, "1."), strings.TrimPrefix(o.Ends[i].Last, "1.")
	}
	for _, l := range o.Look {
		for i := range l.Calls {
			l.Calls[i].Call = strings.TrimPrefix(l.Calls[i].Call, "1.")
		}
	}
}

// text shows an overview in a terminal.
func (o *overview) text() string {
	var b strings.Builder
	for _, run := range o.Runs {
		b.WriteString(fold.Lines(run.text(len(o.Runs) > 1) + "\n"))
	}
	b.WriteString(fold.Lines(fmt.Sprintf("%s: %d failed, %d retried, %d hedged%s%s\n", cli.Count(o.Calls, "call"), o.Failed, o.Retried, o.Hedged,
		some(int64(o.Open), "%d more without an end"), some(o.Lost, "events lost: %d"))))
	if len(o.Ends) > 0 {
		b.WriteString("\n")
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "FAILED\tDEPENDENCY\tREASON\tFIRST CALL\tLAST CALL")
		for _, e := range o.Ends[:min(len(o.Ends), shownCalls)] {
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", e.Calls, e.Dependency, e.Reason, e.First, e.Last)
		}
		_ = table.Flush() // a Builder takes everything
		b.WriteString(strings.TrimPrefix(some(int64(max(len(o.Ends)-shownCalls, 0)), "and %d more\n"), ", "))
	}
	for _, l := range o.Look {
		b.WriteString(l.text())
	}
	if o.Calls > 0 {
		b.WriteString("\ngabion explain --call ID FILE shows one.\n")
	}
	return b.String()
}

// some is a text about a number, or nothing if it is zero.
func some(n int64, text string) string {
	if n == 0 {
		return ""
	}
	return ", " + fmt.Sprintf(text, n)
}

func (r *runLine) text(several bool) string {
	text := "a recording without a header"
	if h := r.Header; h != nil {
		text = programText(&h.Program)
		if h.Virtual {
			text += ", in virtual time"
		} else {
			text += ", began " + h.Time.UTC().Format("2006-01-02T15:04:05Z")
		}
		if h.Note != "" {
			text += ": " + h.Note
		}
	}
	if several {
		return fmt.Sprintf("run %d: %s", r.Run, text)
	}
	return text
}

func (l *look) text() string {
	if len(l.Calls) == 0 {
		return ""
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\n%s\tDEPENDENCY\tBEGAN\tTOOK\tATTEMPTS\tEND\n", strings.ToUpper(l.Why))
	for _, c := range l.Calls {
		began := fmt.Sprintf("%.3fs", c.Seconds)
		if c.Began != "" {
			began = strings.Replace(c.Began, "T", " ", 1)
		}
		end := c.Reason
		if c.Code != "" && c.Reason != policy.None.String() {
			end += " " + c.Code
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", c.Call, c.Dependency, began, short(time.Duration(c.Took*1e9)), c.Attempts, end)
	}
	_ = table.Flush() // a Builder takes everything
	return b.String()
}
