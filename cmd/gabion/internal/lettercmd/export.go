package lettercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	flag "github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const exportHelp = `usage: gabion deadletter export --store URL [--group NAME] [--source NAME]
                    [--reason NAME] [--state STATES] [--since TIME]
                    [--before TIME] [--payload] [--table NAME] [--key-file FILE]
                    > letters.jsonl

Writes letters as JSON, one on a line, the oldest first and each once, also
while consumers work. What is put away after it began is not in it. The last
line is whole if it is interrupted.
` + filterHelp + `  --state STATES   waiting (the default), taken, done, dropped, with
                   commas, or all
  --payload        with payloads, in base64, and the values of headers
  --json           is what it does in any case
  --table NAME     of the tables, if it is not dead_letters
` + keyHelp

func exportFlags(set *flag.FlagSet, o *options) {
	o.filter.flags(set)
	set.StringVar(&o.filter.states, "state", "", "")
	set.BoolVar(&o.with, "payload", false, "")
	keyFlag(set, o)
}

func export(ctx context.Context, c *call) error {
	q, err := c.filter.query(time.Now())
	if err != nil {
		return err
	}
	// A letter that is put away anew has another place, and would come twice. To remember
	// those that were written would take memory for each.
	there, err := c.letters.Stats(ctx, q.Group)
	if err != nil {
		return err
	}
	if end := there.Newest.Add(1); q.Before.IsZero() || end.Before(q.Before) {
		q.Before = end
	}
	e := exporting{call: c}
	_, err = c.pages(ctx, q, "", func(l *deadletter.Letter) error { return e.write(ctx, l) })
	n := count(e.written, "letter was", "letters were")
	if err != nil {
		return fmt.Errorf("%w. %s written, and that was not all", err, n)
	}
	fmt.Fprintf(c.stderr, "%s written\n", n)
	if e.sealed > 0 {
		return fmt.Errorf("%s without contents: no key of %s opens them", count(e.sealed, "is", "are"), c.keyFile)
	}
	return nil
}

// An exporting is an export under way.
type exporting struct {
	*call
	written int
	sealed  int // that did not open
}

func (e *exporting) write(ctx context.Context, l *deadletter.Letter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	full, err := e.letters.Get(ctx, l.ID)
	var r record
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		return nil // swept in the meantime
	case errors.Is(err, deadletter.ErrSealed):
		e.sealed++
		r = recordOf(l)
		r.Problem = err.Error()
	case err != nil:
		return err
	default:
		r = recordOf(&full)
		r.contents = contentsOf(&full, e.with, e.with)
	}
	line, err := compact(r)
	if err != nil {
		return err
	}
	if _, err = e.stdout.Write(append(line, '\n')); err == nil { // whole lines
		e.written++
	}
	return err
}

const statsHelp = `usage: gabion deadletter stats --store URL [--group NAME] [--json]
                    [--table NAME]

Counts letters by group: how many wait and why, how old the oldest is, how much
room they take, and how many were ever put away.

  --group NAME     only this group
  --json           print JSON
  --table NAME     of the tables, if it is not dead_letters
`

func statsFlags(set *flag.FlagSet, o *options) { set.StringVar(&o.group, "group", "", "") }

// A statsRecord is what a store has of a group, as JSON.
type statsRecord struct {
	Group      data           `json:"group"`
	Letters    int            `json:"letters"`
	ByState    map[string]int `json:"by_state"`
	ByReason   map[string]int `json:"by_reason"`
	Unresolved int            `json:"unresolved"`
	Oldest     *time.Time     `json:"oldest,omitempty"`
	Bytes      int64          `json:"bytes"`
	Put        int64          `json:"ever_put_away"`
}

func stats(ctx context.Context, c *call) error {
	groups := []string{c.group}
	if c.group == "" {
		var err error
		if groups, err = c.letters.Groups(ctx); err != nil {
			return err
		}
	}
	all := []statsRecord{}
	for _, group := range groups {
		s, err := c.letters.Stats(ctx, group)
		if err != nil {
			return err
		}
		r := statsRecord{data(group), s.Letters, map[string]int{}, s.ByReason, s.Unresolved, moment(s.Oldest), s.Bytes, s.Put}
		for state, n := range s.ByState {
			r.ByState[state.String()] = n
		}
		if r.ByReason == nil {
			r.ByReason = map[string]int{}
		}
		all = append(all, r)
	}
	if c.json {
		return operator.PrintJSON(c.stdout, map[string]any{"version": jsonVersion, "groups": all})
	}
	c.printStats(all)
	return nil
}

func (c *call) printStats(all []statsRecord) {
	if len(all) == 0 {
		fmt.Fprintln(c.stdout, "no letters")
		return
	}
	fmt.Fprintf(c.stdout, "%s waiting taken    done dropped  oldest      bytes ever put\n", column("group", 24))
	for i := range all {
		s := &all[i]
		oldest := "-"
		if s.Oldest != nil {
			oldest = operator.Span(time.Since(*s.Oldest))
		}
		of := func(state deadletter.State) int { return s.ByState[state.String()] }
		fmt.Fprintf(c.stdout, "%s %7d %5d %7d %7d %7s %10s %8d\n", column(string(s.Group), 24), of(deadletter.Waiting),
			of(deadletter.Taken), of(deadletter.Done), of(deadletter.Dropped), oldest, size(s.Bytes), s.Put)
		for _, reason := range slices.Sorted(maps.Keys(s.ByReason)) {
			fmt.Fprintf(c.stdout, "  %7d  %s%s\n", s.ByReason[reason], text(cmp.Or(reason, "(others)")), unresolvedNote(reason, s.Unresolved))
		}
	}
}

func unresolvedNote(reason string, unresolved int) string {
	if reason != deadletter.Unknown || unresolved == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them not resolved", unresolved)
}
