package idemcmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/idempotency"
)

const (
	listLimit = 100
	listPage  = 256     // records that the store is asked for at once
	maxKeys   = 1 << 20 // bytes of a file of keys
)

func listFlags(set *pflag.FlagSet, o *options) {
	set.StringVar(&o.states, "state", "", "only these `states`, with commas: running, retryable, done, unknown")
	set.StringVar(&o.keys, "keys", "", "with --scope: look up the keys in this `file`, one a line, - for stdin")
	set.StringVar(&o.after, "after", "", "go on from this `cursor`, which the page before ended with")
	set.IntVar(&o.limit, "limit", listLimit, "stop after the page that reaches this number of `records`")
}

var stateNames = map[string]idempotency.State{
	"running": idempotency.StateRunning, "retryable": idempotency.StateRetryable, "done": idempotency.StateDone, "unknown": idempotency.StateUnknown,
}

func (o *options) checkList() error {
	switch {
	case len(o.args) > 0:
		return operator.Wrongf("%q is not expected", o.args[0])
	case o.limit < 1:
		return operator.Wrongf("--limit is at least 1")
	case o.keys == "" && o.hasScope:
		return operator.Wrongf("records can't be listed by scope, of which only a hash is stored: give --keys FILE too, and they are looked up")
	case o.keys != "" && (!o.hasScope || o.after != ""):
		return operator.Wrongf("--keys needs --scope, and no --after")
	}
	_, err := o.wanted()
	return err
}

// wanted are the states that are asked for, none if all are.
func (o *options) wanted() (states []idempotency.State, err error) {
	if o.states == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(o.states, ",") {
		s, known := stateNames[strings.TrimSpace(name)]
		if !known {
			return nil, operator.Wrongf("--state %q: it is running, retryable, done or unknown", name)
		}
		states = append(states, s)
	}
	return states, nil
}

// A page is what ls prints.
type page struct {
	Records []line `json:"records"`
	Next    string `json:"next,omitempty"` // where --after goes on
	Missing int    `json:"missing,omitempty"`
}

// list prints records that match. Expired ones do not.
func list(ctx context.Context, store idempotency.Store, o *options, w io.Writer) error {
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	found := page{Records: []line{}}
	if o.keys != "" {
		err = found.lookUp(ctx, store, o, now)
	} else {
		err = found.scan(ctx, store, o, now)
	}
	if err != nil {
		return err
	}
	if o.json {
		return operator.PrintJSON(w, found)
	}
	return found.print(w, now)
}

func (p *page) scan(ctx context.Context, store idempotency.Store, o *options, now idempotency.Moment) error {
	cursor := o.after
	for {
		entries, next, err := store.List(ctx, cursor, min(listPage, o.limit))
		if err != nil {
			return err
		}
		for _, e := range entries {
			p.add(e, o, now)
		}
		if cursor = next; cursor == "" || len(p.Records) >= o.limit {
			p.Next = cursor
			return nil
		}
	}
}

func (p *page) add(e idempotency.Entry, o *options, now idempotency.Moment) {
	states, _ := o.wanted() // checked
	x := lineOf(e, now)
	if e.Err == nil && (x.state == idempotency.StateAbsent || len(states) > 0 && !slices.Contains(states, x.state)) || e.Err != nil && len(states) > 0 {
		return
	}
	p.Records = append(p.Records, x)
}

// lookUp gets the records of the keys in a file.
func (p *page) lookUp(ctx context.Context, store idempotency.Store, o *options, now idempotency.Moment) error {
	in := io.Reader(os.Stdin)
	if o.keys != "-" {
		f, err := os.Open(o.keys)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		key, err := idempotency.ParseKey(text)
		if err != nil {
			return operator.Wrongf("line %d of the keys: %w", n, err)
		}
		e := idempotency.Entry{ID: idempotency.IDOf(o.scope, key)}
		if e.Record, err = store.Get(ctx, e.ID); err != nil {
			return err
		}
		if e.Record.StateAt(now) == idempotency.StateAbsent {
			p.Missing++
		}
		before := len(p.Records)
		if p.add(e, o, now); len(p.Records) > before {
			p.Records[before].Key = key
		}
	}
	return lines.Err()
}

func (p *page) print(w io.Writer, now idempotency.Moment) error {
	for _, x := range p.Records {
		fmt.Fprintf(w, "%s %-10s%s", x.ID, x.State, operator.Span(now.Sub(x.created)))
		if x.Key != "" {
			fmt.Fprint(w, " ", x.Key)
		}
		fmt.Fprintln(w)
	}
	if len(p.Records) == 0 {
		fmt.Fprintln(w, "no such records")
	}
	if p.Missing > 0 {
		fmt.Fprintf(w, "%s without a record\n", cli.Count(p.Missing, "key"))
	}
	if p.Next != "" {
		fmt.Fprintf(w, "there may be more: --after %s\n", p.Next)
	}
	return nil
}
