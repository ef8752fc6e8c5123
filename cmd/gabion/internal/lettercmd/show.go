package lettercmd

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	flag "github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/deadletter"
)

const showHelp = `usage: gabion deadletter show ID --store URL [--payload raw|hex|utf8]
                    [--headers] [--json] [--table NAME] [--key-file FILE]

Shows one letter: where it came from, why it is here, and each failure. Of the
payload only its size and hash are shown, and of headers their names.

  --payload FORM   print the payload: utf8 with escapes for what a terminal
                   would obey, hex, or raw, which prints nothing else
  --headers        print the values of headers
  --json           print JSON; the payload is base64 then
  --table NAME     of the tables, if it is not dead_letters
` + keyHelp

var payloadForms = []string{"", "raw", "hex", "utf8"}

func showFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.payload, "payload", "", "")
	set.BoolVar(&o.headers, "headers", false, "")
	keyFlag(set, o)
}

func checkShow(o *options) error {
	switch {
	case len(o.words) != 1:
		return operator.Wrongf("which letter? Give one ID: gabion deadletter ls lists them")
	case !slices.Contains(payloadForms, o.payload):
		return operator.Wrongf("--payload %q: it is raw, hex or utf8", o.payload)
	}
	return prefixes(o.words)
}

func show(ctx context.Context, c *call) error {
	found, err := c.find(ctx, c.words)
	if err != nil {
		return err
	}
	l, err := c.letters.Get(ctx, found[0].ID)
	if err != nil {
		return err
	}
	if c.payload != "" && l.State == deadletter.Dropped {
		return operator.Refusef("the letter was dropped, and its payload erased: leave out --payload")
	}
	if c.json {
		r := recordOf(&l)
		r.contents = contentsOf(&l, c.headers, c.payload != "")
		return operator.PrintJSON(c.stdout, r)
	}
	if c.payload == "raw" {
		return c.raw(l.Payload)
	}
	c.print(&l)
	return nil
}

// raw writes the payload as it is, unless a terminal would obey it.
func (c *call) raw(payload []byte) error {
	if c.stdout.terminal() && printable(payload) != string(payload) {
		return operator.Wrongf("the payload has bytes that a terminal would obey: --payload utf8 or hex shows it, and > FILE keeps it")
	}
	_, err := c.stdout.Write(payload)
	return err
}

// printable is text with escapes for what a terminal would obey, in its lines.
func printable(b []byte) string {
	lines := strings.Split(string(b), "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j := range cells {
			cells[j] = text(cells[j])
		}
		lines[i] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

func (c *call) print(l *deadletter.Letter) {
	w := c.stdout
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-12s%s\n", name, text(value))
		}
	}
	field("id", string(l.ID))
	field("state", l.State.String()+" since "+stamp(l.Since))
	field("group", l.Group)
	field("reason", l.Reason)
	field("resolved", c.resolution(l))
	field("key", l.Key)
	field("source", l.Source)
	field("position", l.Position)
	field("order", l.Order)
	field("put away", stamp(l.Kept))
	field("runs", fmt.Sprint(l.Attempts))
	field("first", stamp(l.First))
	field("last", stamp(l.Last))
	if l.Redriven > 0 {
		field("taken", count(l.Redriven, "time", "times")+" for a run again, admitted or not")
		field("redrive", l.Drive)
	}
	field("by", l.By)
	field("note", l.Note)
	for _, h := range l.Headers {
		if c.headers {
			field("header", h.Name+": "+h.Value)
		} else {
			field("header", fmt.Sprintf("%s (%d bytes)", h.Name, len(h.Value)))
		}
	}
	if l.State == deadletter.Dropped {
		field("payload", "erased")
	} else {
		field("payload", fmt.Sprintf("%d bytes, SHA-256 %s", len(l.Payload), hashOf(l.Payload)))
	}
	printFailures(w, l)
	printPayload(w, l.Payload, c.payload)
	c.advise(l)
}

func (c *call) resolution(l *deadletter.Letter) string {
	switch {
	case l.Reason != deadletter.Unknown && l.Resolved == deadletter.Unresolved:
		return ""
	case l.Resolved == deadletter.Unresolved:
		return "not yet"
	case l.Resolved == deadletter.ResolvedAsDone:
		return "done: it had its effect"
	}
	return "nothing: it had no effect"
}

func printFailures(w io.Writer, l *deadletter.Letter) {
	if len(l.Failures) == 0 {
		fmt.Fprint(w, "\nno failure of it was written down\n")
		return
	}
	fmt.Fprint(w, "\nfailures, the oldest first:\n")
	before := 0
	for _, f := range l.Failures {
		if before > 0 && f.Attempt > before+1 {
			fmt.Fprintf(w, "  … %s that %s not kept\n", count(f.Attempt-before-1, "run", "runs"), map[bool]string{true: "was", false: "were"}[f.Attempt == before+2])
		}
		before = f.Attempt
		run := "-"
		if f.Attempt > 0 {
			run = fmt.Sprint(f.Attempt)
		}
		fmt.Fprintf(w, "  %3s  %s  took %s  %s  %s\n       %s\n", run, stamp(f.At), f.Took.Round(time.Millisecond), cmp.Or(text(f.Class), "-"), cmp.Or(text(f.Reason), "-"), cmp.Or(text(f.Message), "-"))
	}
}

func printPayload(w io.Writer, payload []byte, form string) {
	switch form {
	case "hex":
		fmt.Fprintf(w, "\n%s", hex.Dump(payload))
	case "utf8":
		fmt.Fprintf(w, "\n%s\n", printable(payload))
	}
}

// advise says on stderr what can be done next.
func (c *call) advise(l *deadletter.Letter) {
	switch {
	case l.State != deadletter.Waiting:
	case l.Reason == deadletter.Unknown && l.Resolved == deadletter.Unresolved:
		fmt.Fprintf(c.stderr, "\nNobody knows whether its work had its effect. Find out, then:\n  gabion deadletter resolve %s --as done|nothing --note TEXT\n", l.ID)
	default:
		fmt.Fprintf(c.stderr, "\nWhen its cause is mended: gabion deadletter redrive %s\n", l.ID)
	}
	if !utf8.ValidString(l.Key) || strings.ContainsFunc(l.Key, unicode.IsControl) {
		fmt.Fprintln(c.stderr, "Its key has bytes that are shown as escapes: --json has it as it is.")
	}
}
