package outboxcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/outbox"
)

// jsonVersion is that of what --json prints.
const jsonVersion = 1

const listHelp = `usage: gabion outbox ls --store URL [--topic NAME] [--limit N]
                 [--after CURSOR] [--json] [--table NAME]

Lists messages that the relay has given up, the oldest first: how often each
failed, how many of its aggregate wait behind it, and the last error.

  --topic NAME     of that topic
  --limit N        stop after about N messages (default 100)
  --after CURSOR   go on where the list before ended
` + storeHelp

const retryHelp = `usage: gabion outbox retry ID... | --topic NAME | --all --store URL
                    [--json] [--table NAME]

Has parked messages published again, as if they had not failed, and with them
what is behind them. Mend first what the error says: make the stream, or grant
the right. A message that fails again is parked again.

  --topic NAME     all that are parked of that topic
  --all            all that are parked
` + storeHelp

const discardHelp = `usage: gabion outbox discard ID... | --topic NAME | --all --store URL [--yes]
                      [--json] [--table NAME]

Removes parked messages, so that they are never published, and lets go what is
behind them. Nothing of them stays.

  --topic NAME     all that are parked of that topic
  --all            all that are parked
  --yes            it is meant. Without it a terminal is asked
` + storeHelp

const statsHelp = `usage: gabion outbox stats --store URL [--json] [--table NAME]

Counts messages that wait, rest and are parked, and says which relay leads.

` + storeHelp

// pageSize is how many messages the database is asked for at once.
const pageSize = 500

func listFlags(set *pflag.FlagSet, o *options) {
	set.StringVar(&o.topic, "topic", "", "")
	set.StringVar(&o.after, "after", "", "")
	set.IntVar(&o.limit, "limit", 100, "")
}

func retryFlags(set *pflag.FlagSet, o *options) {
	set.StringVar(&o.topic, "topic", "", "")
	set.BoolVar(&o.all, "all", false, "")
}

func discardFlags(set *pflag.FlagSet, o *options) {
	retryFlags(set, o)
	set.BoolVar(&o.yes, "yes", false, "")
}

func checkList(o *options) error {
	if o.limit < 1 {
		return operator.Wrongf("--limit is at least 1")
	}
	return noWords(o)
}

// checkSome wants one way to say which messages are meant.
func checkSome(o *options) error {
	ways := 0
	for _, said := range []bool{len(o.words) > 0, o.topic != "", o.all} {
		if said {
			ways++
		}
	}
	if ways != 1 {
		return operator.Wrongf("say which messages: their IDs, --topic or --all. gabion outbox ls lists them")
	}
	return nil
}

// parked hands on what is parked, of a topic if one is named, until each says that it is enough.
// It returns where to go on, or nothing at the end.
func (c *call) parked(ctx context.Context, from string, each func(*outbox.Parked) (more bool)) (next string, err error) {
	size := pageSize
	if c.topic == "" && c.limit > 0 { // a cursor is the end of a page
		size = min(size, c.limit)
	}
	for {
		page, after, err := c.box.Parked(ctx, from, size)
		if err != nil {
			return "", err
		}
		more := true
		for i := range page {
			if c.topic == "" || page[i].Message.Topic == c.topic {
				more = each(&page[i]) && more
			}
		}
		if from = after; after == "" || !more {
			return after, nil
		}
	}
}

// A line is a message as --json prints it.
type line struct {
	ID        string    `json:"id"`
	Topic     string    `json:"topic"`
	Aggregate string    `json:"aggregate,omitempty"`
	Bytes     int       `json:"bytes"`
	Enqueued  time.Time `json:"enqueued"`
	Attempts  int       `json:"attempts"`
	Behind    int       `json:"behind"`
	Failure   string    `json:"failure"`
}

func list(ctx context.Context, c *call) error {
	lines := []line{}
	next, err := c.parked(ctx, c.after, func(p *outbox.Parked) bool {
		m := &p.Message
		lines = append(lines, line{m.ID, m.Topic, m.Aggregate, p.Bytes, p.Enqueued.UTC(), p.Attempts, p.Behind, p.Failure})
		return len(lines) < c.limit
	})
	if err != nil {
		return err
	}
	if c.json {
		return operator.PrintJSON(c.stdout, map[string]any{"version": jsonVersion, "parked": lines, "next": next})
	}
	if len(lines) == 0 && next == "" {
		_, err = fmt.Fprintln(c.stdout, "nothing is parked")
		return err
	}
	for _, l := range lines {
		_, err = fmt.Fprintf(c.stdout, "%s  %s  enqueued %s  failed %s  %d behind it\n  %s\n", operator.Text(l.ID), operator.Text(l.Topic),
			l.Enqueued.Format(time.RFC3339), cli.Count(l.Attempts, "time"), l.Behind, operator.Text(l.Failure))
		if err != nil {
			return err
		}
	}
	if next != "" {
		fmt.Fprintf(c.stderr, "there may be more: --after %s goes on\n", next)
	}
	return nil
}

// meant are the IDs of the messages that the caller means.
func (c *call) meant(ctx context.Context) (ids []string, err error) {
	if len(c.words) > 0 {
		return c.words, nil
	}
	_, err = c.parked(ctx, "", func(p *outbox.Parked) bool {
		ids = append(ids, p.Message.ID)
		return true
	})
	if err == nil && len(ids) == 0 {
		err = operator.Refusef("no such message is parked")
	}
	return ids, err
}

func retry(ctx context.Context, c *call) error {
	ids, err := c.meant(ctx)
	if err != nil {
		return err
	}
	return c.each(ctx, ids, "retried", "will be published again", c.box.Retry)
}

func discard(ctx context.Context, c *call) error {
	ids, err := c.meant(ctx)
	if err == nil {
		err = c.confirm(ids)
	}
	if err != nil {
		return err
	}
	return c.each(ctx, ids, "discarded", "is removed", c.box.Discard)
}

// each decides about messages one after another, and says which were done if one can't be.
func (c *call) each(ctx context.Context, ids []string, name, says string, decide func(context.Context, string) error) error {
	done := []string{}
	var err error
	for _, id := range ids {
		if err = decide(ctx, id); err != nil {
			break
		}
		done = append(done, id)
	}
	if c.json {
		return errors.Join(err, operator.PrintJSON(c.stdout, map[string]any{"version": jsonVersion, name: done}))
	}
	for _, id := range done {
		fmt.Fprintf(c.stdout, "%s %s\n", operator.Text(id), says)
	}
	return err
}

// confirm asks the person at the terminal.
func (c *call) confirm(ids []string) error {
	if c.yes {
		return nil
	}
	count := cli.Count(len(ids), "message")
	yes, err := operator.Confirm(c.stderr, "Remove "+count+" for good?", count+" will be removed for good")
	if err == nil && !yes {
		err = operator.Refusef("nothing was removed")
	}
	return err
}

func stats(ctx context.Context, c *call) error {
	s, err := c.box.Stats(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return operator.PrintJSON(c.stdout, map[string]any{
			"version": jsonVersion, "waiting": s.Waiting, "oldest_seconds": s.Oldest.Seconds(), "resting": s.Resting, "parked": s.Parked, "leader": s.Leader,
		})
	}
	leader := "none"
	if s.Leader != "" {
		leader = operator.Text(s.Leader)
	}
	_, err = fmt.Fprintf(c.stdout, "waiting  %d, the oldest for %s\nresting  %d\nparked   %d\nleader   %s\n", s.Waiting, operator.Span(s.Oldest), s.Resting, s.Parked, leader)
	return err
}
