package replaycmd

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/past"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// replications is how often what happened is run: only the waits of policies are drawn.
const replications = 5

// world is what happened, as a scenario.
type world struct {
	p        *past.Past
	name     string // of the service and of the policy
	policies string // the dependency's section of a policy file, without what is the default
	file     *config.File
	limited  bool // what was answered 429 is answered by a rate limit
}

// newWorld makes a world with the policy that was in force, which changes say.
func newWorld(p *past.Past, changes []policyfile.Change) (*world, error) {
	w := &world{p: p, name: serviceName(p.Dependency)}
	w.policies = section(w.name, changes)
	var err error
	w.file, err = parse("today", w.policies)
	return w, err
}

// parse reads a section as a policy file.
func parse(name, section string) (*config.File, error) {
	return config.Parse(name, []byte("version: 1\ndependencies:\n"+section))
}

// serviceName is a name that a scenario takes.
func serviceName(dependency string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_", r) {
			return r
		}
		return '-'
	}, strings.ToLower(dependency))
	name = strings.Trim(name[:min(len(name), 40)], "-_")
	switch {
	case name == "":
		return "dependency"
	case name[0] <= '9' || name == "null": // no names in a scenario
		return "service-" + name[:min(len(name), 32)]
	}
	return name
}

// section writes settings as a policy file does.
func section(name string, changes []policyfile.Change) string {
	var b strings.Builder
	if len(changes) == 0 {
		return "  " + name + ": {}\n"
	}
	b.WriteString("  " + name + ":\n")
	var above []string
	for _, c := range changes {
		words := strings.Split(c.Path, ".")
		for i, word := range words[:len(words)-1] {
			if i < len(above) && above[i] == word {
				continue
			}
			above = append(above[:min(i, len(above))], word)
			b.WriteString(strings.Repeat("  ", i+2) + word + ":\n")
		}
		above = slices.Clone(words[:len(words)-1])
		b.WriteString(strings.Repeat("  ", len(words)+1) + words[len(words)-1] + ": " + c.Value + "\n")
	}
	return b.String()
}

// scenario is the text of the scenario's file, beside which the calls are in a file.
func (w *world) scenario(calls string) string {
	p, today := w.p, w.file.Policies[w.name].Resolved()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("version: 1")
	line("title: %s", strconv.Quote("What happened to "+p.Dependency))
	line("story: %s", strconv.Quote(w.story()))
	line("duration: %s", policy.FormatDuration(p.Span()))
	line("bin: %s", policy.FormatDuration(p.Width))
	line("replications: %d", replications)
	if from, to, ok := p.Trouble(); ok {
		line("during: %s..%s", from, to)
	}
	line("clients:")
	line("  callers:")
	line("    count: %d", p.Clients)
	line("    loop: trace")
	begin := ""
	if first := w.rows()[0].At; first > 0 {
		begin = ", begin " + first.String()
	}
	line("    replay: %s", strconv.Quote("from "+calls+", at at ns, took took ns, status status"+begin))
	if today.Timeout.Call > 0 {
		line("    deadline: %s", policy.FormatDuration(today.Timeout.Call))
	}
	more := ""
	if p.Repeated && !today.Safe {
		more = ", method: GET"
	}
	if today.Key == policy.KeyRequired {
		more += ", keyed: true"
	}
	line("    calls: [{to: %s%s}]", w.name, more)
	line("services:")
	line("  %s: {time: %s}", w.name, policy.FormatDuration(max(p.Whole.P50, time.Millisecond)))
	if w.limited {
		burst := max(int(p.Limit.Rate*burstTime.Seconds()), 1)
		line("faults:")
		line("  - {kind: rate_limit, service: %s, at: %s, for: %s, limit: {rate: %.3g/s, burst: %d}}", w.name, p.Limit.At, p.Limit.For, p.Limit.Rate, burst)
	}
	line("policies:")
	b.WriteString(w.policies)
	return b.String()
}

// story says where the scenario is from, and what it takes for granted.
func (w *world) story() string {
	from := w.p.Source
	if !w.p.Begin.IsZero() {
		from += ", from " + w.p.Begin.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("Made by gabion lab replay of %s (%s). %s", filepath.Base(from), w.p.Kind, assumption)
}

// assumption is what every replay takes for granted.
const assumption = "Attempts meet what attempts met then, however many are sent: a dependency that more attempts make slower, or fewer make faster, is not in it."

// burstTime is how much of the rate may come at once: what happened does not show it.
const burstTime = 100 * time.Millisecond

// rows are the calls.
func (w *world) rows() []past.Row {
	if w.limited {
		return w.p.Limit.Rows
	}
	return w.p.Rows
}

// writeCalls writes the calls.
func (w *world) writeCalls(to io.Writer) error {
	out := bufio.NewWriter(to)
	fmt.Fprintln(out, "at,took,status")
	for _, r := range w.rows() {
		status := strconv.Itoa(r.Status)
		if r.Status == past.Refused {
			status = "refused"
		}
		fmt.Fprintf(out, "%d,%d,%s\n", r.At.Nanoseconds(), r.Took.Nanoseconds(), status)
	}
	return out.Flush()
}
