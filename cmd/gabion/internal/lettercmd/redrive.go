package lettercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const redriveHelp = `usage: gabion deadletter redrive [ID...] [--group NAME] [--source NAME]
                    [--reason NAME] [--since TIME] [--before TIME] [--all]
                    [--rate RATE] [--dry-run] [--by NAME] [--follow]
                    [--json] --store URL [--table NAME]

Orders that letters run again: those with the IDs, or those that wait and that
the flags let through. The consumers of the group take them, under the same keys
and through the same policy: they hold back while the breaker is open, and a
letter that fails waits again, with the failure written down. The redrive stops
by itself when fewer than half of its last 20 letters succeed. A group has one
redrive at a time: while it goes on, another is refused.

Letters whose outcome is unknown are left out until an operator resolves them;
the command says how many. If an ID names such a letter, nothing is ordered.
` + filterHelp + `  --all            every letter that waits, where no flag above picks some
  --rate RATE      how many letters run, of all consumers together: 5/s (the
                   default), 300/m, 100/h
  --dry-run        say what would run, and order nothing
  --by NAME        who orders it (default: the user and the machine)
  --follow         show how it goes until it ends. Ctrl-C ends the looking, not
                   the redrive
  --json           print JSON
  --table NAME     of the tables, if it is not dead_letters

Exit codes: 0 it was ordered; with --follow every letter succeeded. 1 nothing
can run, an ID names a letter whose outcome is unknown, or another redrive of
the group goes on; with --follow some letters failed or it was stopped.
`

const (
	usualRate = "5/s"
	mostRate  = 10_000 // letters a second: more is a slip, and no store takes them so fast
	mostIDs   = 1000   // of one order, as stores have it
)

func redriveFlags(set *flag.FlagSet, o *options) {
	o.filter.flags(set)
	set.StringVar(&o.rateText, "rate", usualRate, "")
	set.BoolVar(&o.all, "all", false, "")
	set.BoolVar(&o.dry, "dry-run", false, "")
	set.BoolVar(&o.follow, "follow", false, "")
	set.StringVar(&o.by, "by", "", "")
}

func checkRedrive(o *options) (err error) {
	if o.rate, err = rateOf(o.rateText); err != nil {
		return err
	}
	switch {
	case len(o.words) > 0 && o.filter.given():
		return operator.Wrongf("either IDs or flags that pick letters, not both")
	case o.all && (len(o.words) > 0 || o.filter.given()):
		return operator.Wrongf("--all takes every letter that waits: leave out what picks some, or --all")
	case len(o.words) == 0 && !o.filter.given() && !o.all && !o.dry:
		return operator.Wrongf("which letters? Give IDs, or flags such as --group and --reason, or --all for every letter that waits. --dry-run shows what would run")
	case len(o.words) > mostIDs:
		return operator.Wrongf("at most %d IDs in one order: pick more with flags such as --group and --reason", mostIDs)
	case o.dry && o.follow:
		return operator.Wrongf("--dry-run orders nothing that --follow could show")
	}
	if err := prefixes(o.words); err != nil {
		return err
	}
	return o.filter.check()
}

// rateOf reads a number of letters in a second, a minute or an hour.
func rateOf(text string) (perSecond float64, err error) {
	number, unit, _ := strings.Cut(text, "/")
	seconds, known := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	perSecond = n / seconds
	switch {
	case err != nil || !known || math.IsNaN(n) || strings.HasSuffix(text, "/"):
		return 0, operator.Wrongf("--rate %q: it is a number of letters in a second, a minute or an hour, such as 5/s, 300/m or 100/h", text)
	case n <= 0:
		return 0, operator.Wrongf("--rate %q: it is more than zero. gabion deadletter stop ends a redrive", text)
	case perSecond > mostRate:
		return 0, operator.Wrongf("--rate %q: it is at most %d/s", text, mostRate)
	case perSecond < 1.0/86400:
		return 0, operator.Wrongf("--rate %q: that is less than one letter a day", text)
	}
	return perSecond, nil
}

// rateText says a rate in the unit in which it is a plain number.
func rateText(perSecond float64) string {
	for _, u := range []struct {
		name string
		in   float64
	}{{"s", 1}, {"m", 60}, {"h", 3600}} {
		if n := perSecond * u.in; n >= 1 || u.name == "h" {
			return strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64) + "/" + u.name
		}
	}
	return ""
}

// A plan is what a redrive would take, and what not.
type plan struct {
	query      deadletter.Query
	ready      map[string]int // by group
	reasons    map[string]int // of those that are ready
	unresolved int
	example    deadletter.ID  // one of those that are unresolved; empty if none is any more
	others     map[string]int // named by ID, by why they can't run
}

func (p *plan) total() (n int) {
	for _, one := range p.ready {
		n += one
	}
	return n
}

func (p *plan) add(l *deadletter.Letter) {
	switch {
	case l.State != deadletter.Waiting:
		p.others[l.State.String()]++
	case l.Reason == deadletter.Unknown && l.Resolved == deadletter.Unresolved:
		if p.unresolved++; p.example == "" {
			p.example = l.ID
		}
	default:
		p.ready[l.Group]++
		p.reasons[l.Reason]++
	}
}

func (c *call) plan(ctx context.Context) (p *plan, err error) {
	p = &plan{ready: map[string]int{}, reasons: map[string]int{}, others: map[string]int{}}
	if len(c.words) == 0 {
		if p.query, err = c.filter.query(time.Now()); err != nil {
			return nil, err
		}
		return p, c.fill(ctx, p)
	}
	found, err := c.find(ctx, c.words)
	if err != nil {
		return nil, err
	}
	for i := range found {
		p.add(&found[i])
		p.query.IDs = append(p.query.IDs, found[i].ID)
	}
	return p, nil
}

// fill counts what flags pick, without reading it.
func (c *call) fill(ctx context.Context, p *plan) error {
	all, err := c.letters.Count(ctx, p.query)
	if err != nil {
		return err
	}
	for _, some := range all {
		if some.Unresolved {
			p.unresolved += some.Letters
		} else {
			p.ready[some.Group] += some.Letters
			p.reasons[some.Reason] += some.Letters
		}
	}
	if p.unresolved > 0 {
		p.example, err = c.firstUnresolved(ctx, p.query)
	}
	return err
}

var errFound = errors.New("it is found")

// firstUnresolved finds one that wants a resolution, to be shown as an example. It is empty if all
// are resolved.
func (c *call) firstUnresolved(ctx context.Context, q deadletter.Query) (id deadletter.ID, err error) {
	q.Reason = deadletter.Unknown
	_, err = c.pages(ctx, q, "", func(l *deadletter.Letter) error {
		if l.Resolved == deadletter.Unresolved {
			id = l.ID
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return id, err
}

func redrive(ctx context.Context, c *call) error {
	p, err := c.plan(ctx)
	if err != nil {
		return err
	}
	groups := slices.Sorted(maps.Keys(p.ready))
	switch {
	case len(c.words) > 0 && p.unresolved > 0:
		return fmt.Errorf("%w: %s. Nothing was ordered. When it is found out: gabion deadletter resolve %s --as done|nothing --note TEXT", deadletter.ErrUnresolved, p.example, p.example)
	case len(groups) == 0:
		c.leftOut(p)
		return operator.Refusef("there is nothing to run: no letter that is meant waits and may run")
	case len(groups) > 1:
		return operator.Wrongf("the letters are of %d groups (%s), and a redrive is of one: say which with --group", len(groups), strings.Join(groups, ", "))
	case c.dry:
		return c.printPlan(p, groups[0])
	}
	p.query.Group = groups[0]
	d, err := c.letters.Order(ctx, p.query, deadletter.Drive{Group: groups[0], Rate: c.rate, By: operator.Who(c.by)})
	if err != nil {
		return err
	}
	c.leftOut(p)
	if !c.json || !c.follow {
		if err := c.printOrder(p, &d); err != nil {
			return err
		}
	}
	if c.follow {
		return c.watch(ctx, d, p.unresolved)
	}
	return nil
}

func (c *call) printPlan(p *plan, group string) error {
	if c.json {
		return operator.PrintJSON(c.stdout, map[string]any{
			"version": jsonVersion, "dry_run": true, "group": group, "letters": p.total(), "by_reason": p.reasons,
			"rate_per_second": c.rate, "seconds": math.Ceil(float64(p.total()) / c.rate), "unresolved": p.unresolved, "not_waiting": p.others,
		})
	}
	fmt.Fprintf(c.stdout, "would run %s of %s at %s, in about %s\n", count(p.total(), "letter", "letters"), text(group), rateText(c.rate), lasting(p.total(), c.rate))
	for _, reason := range slices.Sorted(maps.Keys(p.reasons)) {
		fmt.Fprintf(c.stdout, "  %6d  %s\n", p.reasons[reason], text(reason))
	}
	c.leftOut(p)
	return nil
}

// lasting is how long a redrive takes at its rate.
func lasting(letters int, rate float64) string {
	return operator.Span(time.Duration(math.Min(math.Ceil(float64(letters)/rate), 1e9)) * time.Second)
}

// leftOut says what a redrive leaves out, and how that can be changed.
func (c *call) leftOut(p *plan) {
	if p.unresolved > 0 {
		fmt.Fprintf(c.stderr, "left out: %s whose outcome is unknown. Find out what became of each, such as\n  gabion deadletter resolve %s --as done|nothing --note TEXT\n", count(p.unresolved, "letter", "letters"), cmp.Or(string(p.example), "ID"))
	}
	for _, state := range slices.Sorted(maps.Keys(p.others)) {
		fmt.Fprintf(c.stderr, "left out: %s\n", count(p.others[state], "letter that is "+state, "letters that are "+state))
	}
}

func (c *call) printOrder(p *plan, d *deadletter.Drive) error {
	if c.json {
		return operator.PrintJSON(c.stdout, orderRecord{driveRecordOf(d), p.unresolved})
	}
	fmt.Fprintf(c.stdout, "redrive %s: %s of %s at %s, in about %s\n", d.ID, count(d.Total, "letter", "letters"), text(d.Group), rateText(d.Rate), lasting(d.Total, d.Rate))
	if !c.follow {
		fmt.Fprintf(c.stderr, "how it goes: gabion deadletter redrives; to end it: gabion deadletter stop %s\n", d.ID)
	}
	return nil
}

// errGone is of a redrive that the store has no longer.
var errGone = errors.New("the store does not list the redrive any more")

func (c *call) drive(ctx context.Context, group, id string) (deadletter.Drive, error) {
	all, err := c.letters.Drives(ctx, group)
	if err != nil {
		return deadletter.Drive{}, err
	}
	for i := range all {
		if all[i].ID == id {
			return all[i], nil
		}
	}
	return deadletter.Drive{}, errGone
}
