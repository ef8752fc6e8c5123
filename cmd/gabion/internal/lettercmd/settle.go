package lettercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	flag "github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const resolveHelp = `usage: gabion deadletter resolve ID --as done|nothing --note TEXT --store URL
                    [--force] [--by NAME] [--json] [--table NAME]

Says what became of work whose outcome is unknown: letters with the reason
outcome_unknown. Look for the effect first, where it would be.

  --as done        it had its effect: the letter is done, and never runs again
  --as nothing     it had no effect and can have none any more: a redrive may
                   run it, under the same key
  --note TEXT      how that was found out; it is kept with the letter
  --force          in spite of what was said before, which stays in the note
  --by NAME        who says so (default: the user and the machine)
  --json           print JSON
  --table NAME     of the tables, if it is not dead_letters
`

func resolveFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.as, "as", "", "")
	set.BoolVar(&o.force, "force", false, "")
	set.StringVar(&o.note, "note", "", "")
	set.StringVar(&o.by, "by", "", "")
}

func checkResolve(o *options) error {
	switch {
	case len(o.words) != 1:
		return operator.Wrongf("one letter at a time, by its ID: each effect has to be looked for by itself")
	case o.as != "done" && o.as != "nothing":
		return operator.Wrongf("say --as done or --as nothing: what became of the work")
	case strings.TrimSpace(o.note) == "":
		return operator.Wrongf("say with --note how that was found out")
	}
	return prefixes(o.words)
}

func resolve(ctx context.Context, c *call) error {
	found, err := c.find(ctx, c.words)
	if err != nil {
		return err
	}
	l, to := found[0], deadletter.ResolvedAsFailed
	if c.as == "done" {
		to = deadletter.ResolvedAsDone
	}
	switch {
	case l.Reason != deadletter.Unknown:
		return operator.Refusef("the outcome of %s is known, its reason is %s: gabion deadletter redrive %s runs it again, drop gives it up", l.ID, l.Reason, l.ID)
	case l.State == deadletter.Dropped || l.State == deadletter.Done && l.Resolved != deadletter.ResolvedAsDone:
		return operator.Refusef("%s is %s already", l.ID, l.State)
	case l.Resolved != deadletter.Unresolved && l.Resolved != to && !c.force:
		return operator.Refusef("%s was resolved as %s by %s: %s. If that was wrong, say --force", l.ID, l.Resolved, cmp.Or(text(l.By), "an unnamed operator"), text(l.Note))
	case l.Resolved != deadletter.Unresolved && l.Resolved != to:
		if err := c.letters.Resolve(ctx, l.ID, deadletter.Unresolved, operator.Who(c.by), c.note); err != nil {
			return err
		}
	}
	if err := c.letters.Resolve(ctx, l.ID, to, operator.Who(c.by), c.note); err != nil {
		return err
	}
	if c.json {
		return operator.PrintJSON(c.stdout, map[string]any{"version": jsonVersion, "id": l.ID, "resolved": to.String()})
	}
	if to == deadletter.ResolvedAsDone {
		_, err = fmt.Fprintf(c.stdout, "%s is done\n", l.ID)
	} else {
		_, err = fmt.Fprintf(c.stdout, "%s may run: gabion deadletter redrive %s\n", l.ID, l.ID)
	}
	return err
}

const dropHelp = `usage: gabion deadletter drop ID... --note TEXT --store URL [--yes]
                    [--by NAME] [--json] [--table NAME]

Gives letters up for good. Their payloads are erased; that they were there, and
who dropped them, stays for a while.

  --note TEXT      why; it is kept with the letter
  --yes            it is meant. Without it a terminal is asked
  --by NAME        who drops them (default: the user and the machine)
  --json           print JSON
  --table NAME     of the tables, if it is not dead_letters
`

func dropFlags(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.yes, "yes", false, "")
	set.StringVar(&o.note, "note", "", "")
	set.StringVar(&o.by, "by", "", "")
}

func checkDrop(o *options) error {
	switch {
	case len(o.words) == 0:
		return operator.Wrongf("which letters? Give their IDs: gabion deadletter ls lists them")
	case strings.TrimSpace(o.note) == "":
		return operator.Wrongf("say with --note why: it stays with the letter")
	}
	return prefixes(o.words)
}

func drop(ctx context.Context, c *call) error {
	found, err := c.find(ctx, c.words)
	if err != nil {
		return err
	}
	for i := range found {
		if s := found[i].State; s == deadletter.Taken {
			return operator.Refusef("a consumer works on %s right now: nothing was dropped", found[i].ID)
		}
	}
	if err := c.confirm(found); err != nil {
		return err
	}
	by := operator.Who(c.by)
	var dropped []deadletter.ID
	for i := range found {
		if err := c.letters.Drop(ctx, found[i].ID, by, c.note); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", found[i].ID, err), c.said(dropped))
		}
		dropped = append(dropped, found[i].ID)
	}
	return c.said(dropped)
}

func (c *call) said(dropped []deadletter.ID) error {
	if c.json {
		return operator.PrintJSON(c.stdout, map[string]any{"version": jsonVersion, "dropped": append([]deadletter.ID{}, dropped...)})
	}
	for _, id := range dropped {
		fmt.Fprintf(c.stdout, "%s is dropped\n", id)
	}
	return nil
}

// confirm asks at the terminal.
func (c *call) confirm(found []deadletter.Letter) error {
	if c.yes {
		return nil
	}
	for i := range found {
		fmt.Fprintf(c.stderr, "%s  %s  %s\n", found[i].ID, text(found[i].Group), text(found[i].Key))
	}
	n := count(len(found), "letter", "letters")
	yes, err := operator.Confirm(c.stderr, "Erase the payloads of "+n+" for good?", "the payloads of "+n+" will be erased")
	if err == nil && !yes {
		err = operator.Refusef("nothing was dropped")
	}
	return err
}
