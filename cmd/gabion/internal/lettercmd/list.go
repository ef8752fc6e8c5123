package lettercmd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	flag "github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const listHelp = `usage: gabion deadletter ls --store URL [--group NAME] [--source NAME]
                    [--reason NAME] [--state STATES] [--since TIME]
                    [--before TIME] [--limit N] [--after CURSOR] [--all]
                    [--json] [--table NAME]

Lists letters, the oldest first: when each was put away, by whom, why, and the
last error.
` + filterHelp + `  --state STATES   waiting (the default), taken, done, dropped, with
                   commas, or all
  --limit N        stop after N letters (default 100)
  --after CURSOR   go on where the list before ended
  --all            list all, however many
  --json           print JSON
  --table NAME     of the tables, if it is not dead_letters
`

const (
	listLimit = 100
	pageSize  = 500 // letters that the store is asked for at once: without payloads, a few hundred kilobytes
)

func listFlags(set *flag.FlagSet, o *options) {
	o.filter.flags(set)
	set.StringVar(&o.filter.states, "state", "", "")
	set.StringVar(&o.after, "after", "", "")
	set.IntVar(&o.limit, "limit", listLimit, "")
	set.BoolVar(&o.every, "all", false, "")
}

func checkList(o *options) error {
	if o.limit < 1 {
		return operator.Wrongf("--limit is at least 1, or say --all")
	}
	if _, err := deadletter.ParsePlace(o.after); err != nil {
		return operator.Wrongf("--after %q: it is the cursor that the list before ended with", o.after)
	}
	return noWords(o)
}

// list prints letters as their pages come.
func list(ctx context.Context, c *call) error {
	q, err := c.filter.query(time.Now())
	if err != nil {
		return err
	}
	table := newTable(c, len(q.States) > 1)
	next, err := c.pages(ctx, q, c.after, table.add)
	if err != nil {
		return err
	}
	return table.end(next)
}

// pages hands every letter on, up to the limit, and returns where to go on.
func (c *call) pages(ctx context.Context, q deadletter.Query, from string, each func(*deadletter.Letter) error) (next string, err error) {
	for left := c.limit; ; {
		ask := pageSize
		if !c.every && c.limit > 0 {
			ask = min(ask, left)
		}
		page, err := c.letters.List(ctx, q, from, ask)
		if err != nil {
			return "", err
		}
		for i := range page.Letters {
			if err := each(&page.Letters[i]); err != nil {
				return "", err
			}
		}
		left -= len(page.Letters)
		if from = page.Next; from == "" || !c.every && c.limit > 0 && left <= 0 {
			return from, nil
		}
	}
}

// A table prints letters, as lines or as JSON.
type table struct {
	c      *call
	states bool // they are in more than one
	n      int
}

func newTable(c *call, states bool) *table { return &table{c: c, states: states} }

func (t *table) add(l *deadletter.Letter) error {
	t.n++
	if t.c.json {
		return t.addJSON(l)
	}
	if t.n == 1 {
		fmt.Fprintf(t.c.stdout, "%s put away             %s %s %s%s  runs last failure\n", column("id", 32), column("group", 16), column("key", 20), t.state("state"), column("reason", 18))
	}
	last := "-"
	if n := len(l.Failures); n > 0 {
		last = short(l.Failures[n-1].Message, 60)
	}
	_, err := fmt.Fprintf(t.c.stdout, "%s %-20s %s %s %s%s %5d %s\n", column(string(l.ID), 32), stamp(l.Kept),
		column(l.Group, 16), column(cmp.Or(l.Key, "-"), 20), t.state(l.State.String()), column(why(l), 18), l.Attempts, last)
	return err
}

// why is a letter's reason, and its resolution.
func why(l *deadletter.Letter) string {
	if l.Resolved != deadletter.Unresolved {
		return l.Reason + " (" + l.Resolved.String() + ")"
	}
	return l.Reason
}

// state is a column where letters are in more than one.
func (t *table) state(s string) string {
	if t.states {
		return column(s, 7) + " "
	}
	return ""
}

func (t *table) addJSON(l *deadletter.Letter) error {
	text, err := compact(recordOf(l))
	if err != nil {
		return err
	}
	before := ",\n  "
	if t.n == 1 {
		before = fmt.Sprintf("{\"version\":%d,\"letters\":[\n  ", jsonVersion)
	}
	_, err = fmt.Fprint(t.c.stdout, before, string(text))
	return err
}

func (t *table) end(next string) error {
	var err error
	switch {
	case t.c.json && t.n == 0:
		_, err = fmt.Fprintf(t.c.stdout, "{\"version\":%d,\"letters\":[],\"next\":%q}\n", jsonVersion, next)
	case t.c.json:
		_, err = fmt.Fprintf(t.c.stdout, "\n],\"next\":%q}\n", next)
	case t.n == 0:
		_, err = fmt.Fprintln(t.c.stdout, "no such letters")
	case next != "":
		_, err = fmt.Fprintf(t.c.stderr, "there are more: --after %s goes on, --all lists all\n", next)
	}
	return err
}
