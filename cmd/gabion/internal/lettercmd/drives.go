package lettercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const redrivesHelp = `usage: gabion deadletter redrives --store URL [--group NAME] [--json]
                    [--table NAME]

Lists the last redrive of each group, the newest first: what it took, how it
came out, and why it stopped if it did.

  --group NAME     only those of this group
  --json           print JSON
  --table NAME     of the tables, if it is not dead_letters
`

func redrivesFlags(set *flag.FlagSet, o *options) { set.StringVar(&o.group, "group", "", "") }

// A driveRecord is a redrive as JSON.
type driveRecord struct {
	Version int        `json:"version"`
	ID      string     `json:"id"`
	Group   data       `json:"group"`
	State   string     `json:"state"`
	Why     data       `json:"why,omitempty"`
	Rate    float64    `json:"rate_per_second"`
	By      data       `json:"by,omitempty"`
	Made    *time.Time `json:"made,omitempty"`
	Total   int        `json:"total"`
	Left    int        `json:"left"`
	Done    int        `json:"done"`
	Failed  int        `json:"failed"`
}

// An orderRecord is what was ordered.
type orderRecord struct {
	driveRecord
	Unresolved int `json:"unresolved"` // left out, since they want a resolution
}

func driveRecordOf(d *deadletter.Drive) driveRecord {
	return driveRecord{
		Version: jsonVersion, ID: d.ID, Group: data(d.Group), State: d.State.String(), Why: data(d.Why), Rate: d.Rate, By: data(d.By),
		Made: moment(d.Made), Total: d.Total, Left: d.Left, Done: d.Done, Failed: d.Failed,
	}
}

func redrives(ctx context.Context, c *call) error {
	all, err := c.letters.Drives(ctx, c.group)
	if err != nil {
		return err
	}
	if c.json {
		list := []driveRecord{}
		for i := range all {
			list = append(list, driveRecordOf(&all[i]))
		}
		return operator.PrintJSON(c.stdout, map[string]any{"version": jsonVersion, "redrives": list})
	}
	for i := range all {
		d := &all[i]
		fmt.Fprintf(c.stdout, "%s  %s  %s  %s  by %s\n  %s\n", d.ID, stamp(d.Made), short(d.Group, 40), rateText(d.Rate), short(cmp.Or(d.By, "-"), 40), standing(d))
	}
	if len(all) == 0 {
		fmt.Fprintln(c.stdout, "no redrives")
	}
	return nil
}

// standing is where a redrive stands.
func standing(d *deadletter.Drive) string {
	s := fmt.Sprintf("%s: %d of %s done, %d failed, %d left", strings.ReplaceAll(d.State.String(), "_", " "), d.Done, count(d.Total, "letter", "letters"), d.Failed, d.Left)
	if d.Why != "" {
		s += ". " + text(d.Why)
	}
	return s
}

const stopHelp = `usage: gabion deadletter stop REDRIVE --store URL [--by NAME] [--note TEXT]
                    [--json] [--table NAME]

Ends a redrive. What consumers have taken goes on; the rest waits again.

  --by NAME        who stops it (default: the user and the machine)
  --note TEXT      why
  --json           print JSON
  --table NAME     of the tables, if it is not dead_letters
`

func stopFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.by, "by", "", "")
	set.StringVar(&o.note, "note", "", "")
}

func checkStop(o *options) error {
	if len(o.words) != 1 {
		return operator.Wrongf("which redrive? Give one ID: gabion deadletter redrives lists them")
	}
	return nil
}

func stop(ctx context.Context, c *call) error {
	d, err := c.redriveNamed(ctx, c.words[0])
	if err != nil {
		return err
	}
	if d.State != deadletter.Driving {
		return operator.Refusef("the redrive is %s", standing(&d))
	}
	if err := c.letters.Stop(ctx, d.ID, operator.Who(c.by), cmp.Or(c.note, "stopped by hand")); err != nil {
		return err
	}
	if d, err = c.drive(ctx, d.Group, d.ID); err != nil {
		return err
	}
	if c.json {
		return operator.PrintJSON(c.stdout, driveRecordOf(&d))
	}
	_, err = fmt.Fprintf(c.stdout, "redrive %s is %s\n", d.ID, standing(&d))
	return err
}

// redriveNamed finds a redrive by the beginning of its ID.
func (c *call) redriveNamed(ctx context.Context, word string) (deadletter.Drive, error) {
	all, err := c.letters.Drives(ctx, "")
	if err != nil {
		return deadletter.Drive{}, err
	}
	var found []deadletter.Drive
	for i := range all {
		if all[i].ID == word {
			return all[i], nil
		}
		if strings.HasPrefix(all[i].ID, word) && len(word) >= leastDigits {
			found = append(found, all[i])
		}
	}
	switch {
	case len(found) == 0:
		return deadletter.Drive{}, operator.Wrongf("there is no redrive %q: gabion deadletter redrives lists them", word)
	case len(found) > 1:
		return deadletter.Drive{}, operator.Wrongf("%q is the beginning of %d redrives: give more of it", word, len(found))
	}
	return found[0], nil
}

const (
	lookEvery = time.Second
	idleHint  = 30 * time.Second // without any progress
)

// watch shows how a redrive goes until it ends. Unresolved is how many letters it left out.
func (c *call) watch(ctx context.Context, d deadletter.Drive, unresolved int) error {
	last, moved, hinted := "", time.Now(), false
	for {
		if now := standing(&d); now != last {
			last, moved, hinted = now, time.Now(), false
			if !c.json {
				fmt.Fprintf(c.stdout, "%s  %s\n", stamp(time.Now()), now)
			}
		}
		if d.State != deadletter.Driving {
			return c.ended(&d, unresolved)
		}
		if quiet := time.Since(moved); quiet >= idleHint && quiet >= time.Duration(2/d.Rate*float64(time.Second)) && !hinted {
			hinted = true
			fmt.Fprintf(c.stderr, "nothing was taken for %s: does a consumer of %s run that redrives from this store, and is its breaker closed?\n", operator.Span(quiet), text(d.Group))
		}
		next := time.NewTimer(lookEvery)
		select {
		case <-ctx.Done():
		case <-next.C:
		}
		next.Stop()
		fresh, err := c.drive(ctx, d.Group, d.ID)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the redrive goes on: gabion deadletter stop %s ends it: %w", d.ID, ctx.Err())
		case errors.Is(err, errGone):
			return err
		case err != nil:
			return fmt.Errorf("redrive %s can't be looked at, and goes on as far as is known: %w. gabion deadletter redrives shows it", d.ID, err)
		}
		d = fresh
	}
}

func (c *call) ended(d *deadletter.Drive, unresolved int) error {
	if c.json {
		if err := operator.PrintJSON(c.stdout, orderRecord{driveRecordOf(d), unresolved}); err != nil {
			return err
		}
	}
	switch {
	case d.State == deadletter.StoppedByItself:
		return operator.Refusef("it stopped by itself: %s. %s again", d.Why, count(d.Total-d.Done, "letter waits", "letters wait"))
	case d.State == deadletter.Stopped:
		return operator.Refusef("it was stopped: %s. %s again", cmp.Or(d.Why, "no reason given"), count(d.Total-d.Done, "letter waits", "letters wait"))
	case d.Failed > 0:
		return operator.Refusef("%s again: gabion deadletter ls --group %s shows why", count(d.Failed, "letter failed and waits", "letters failed and wait"), d.Group)
	}
	return nil
}
