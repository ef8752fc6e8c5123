package idemcmd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/idempotency"
)

// A line is a record as it is printed.
type line struct {
	ID         string     `json:"id"`
	Key        string     `json:"key,omitempty"` // where the caller gave it
	State      string     `json:"state"`
	Problem    string     `json:"problem,omitempty"` // why it can't be read
	Guarantee  string     `json:"guarantee,omitempty"`
	Attempt    int        `json:"attempt,omitempty"`
	Token      int64      `json:"token,omitempty"`
	Created    *time.Time `json:"created,omitempty"`
	LeaseUntil *time.Time `json:"lease_until,omitempty"`
	Finished   *time.Time `json:"finished,omitempty"`
	Expires    *time.Time `json:"expires,omitempty"`
	Retention  string     `json:"retention,omitempty"`
	Points     []string   `json:"points,omitempty"`

	state   idempotency.State
	created idempotency.Moment
}

func lineOf(e idempotency.Entry, now idempotency.Moment) line {
	r := &e.Record
	x := line{ID: e.ID.Hex(), state: r.StateAt(now), created: r.Created}
	if e.Err != nil {
		x.State, x.Problem = "unreadable", e.Err.Error()
		return x
	}
	x.State, x.Guarantee, x.Attempt, x.Token = x.state.String(), r.Guarantee.String(), r.Attempt, r.Token
	x.Created, x.LeaseUntil, x.Finished, x.Expires = moment(r.Created), moment(r.LeaseUntil), moment(r.Finished), moment(r.Expires)
	x.Retention = r.Retention.String()
	for _, p := range r.Points {
		x.Points = append(x.Points, p.Name)
	}
	return x
}

func moment(t idempotency.Moment) *time.Time {
	if t == 0 || t == math.MaxInt64 {
		return nil
	}
	at := time.Unix(0, int64(t)).UTC()
	return &at
}

// A full record is what show prints.
type full struct {
	line
	Fingerprint string              `json:"fingerprint"`
	Status      int                 `json:"status,omitempty"`
	Header      []idempotency.Field `json:"header,omitempty"`
	Trailer     []idempotency.Field `json:"trailer,omitempty"`
	BodyBytes   int                 `json:"body_bytes"`
	BodyOmitted bool                `json:"body_omitted,omitempty"`
	Sealed      bool                `json:"sealed,omitempty"` // then header, trailer and body are not shown
	Body        []byte              `json:"body,omitempty"`   // base64
}

func keyFlag(set *pflag.FlagSet, o *options) {
	set.StringVar(&o.key, "key", "", "the `key`, with --scope")
}

func showFlags(set *pflag.FlagSet, o *options) {
	keyFlag(set, o)
	set.BoolVar(&o.body, "body", false, "print the body too, which may hold what not everybody may read")
}

func show(ctx context.Context, store idempotency.Store, o *options, w io.Writer) error {
	id, err := o.id()
	if err != nil {
		return err
	}
	r, err := store.Get(ctx, id)
	if err != nil {
		return err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	if r.StateAt(now) == idempotency.StateAbsent {
		return fmt.Errorf("%w: there is no record", idempotency.ErrRefused)
	}
	f := full{line: lineOf(idempotency.Entry{ID: id, Record: r}, now), Fingerprint: hex.EncodeToString(r.Fingerprint[:]),
		Status: r.Result.Status, Header: r.Result.Header, Trailer: r.Result.Trailer, BodyBytes: len(r.Result.Body), BodyOmitted: r.Result.Omitted}
	if f.Sealed = r.Result.IsSealed(); f.Sealed {
		f.Header, f.BodyBytes = nil, 0
	} else if o.body {
		f.Body = r.Result.Body
	}
	if o.json {
		return operator.PrintJSON(w, f)
	}
	f.print(w, &r, now)
	return nil
}

func (f full) print(w io.Writer, r *idempotency.Record, now idempotency.Moment) {
	field := func(name, text string) { fmt.Fprintf(w, "%-12s%s\n", name, text) }
	field("id", f.ID)
	field("state", f.State+meaning(r, f.state))
	field("guarantee", f.Guarantee)
	field("attempt", fmt.Sprint(f.Attempt))
	field("token", fmt.Sprint(f.Token))
	for _, t := range []struct {
		name string
		at   *time.Time
	}{{"created", f.Created}, {"lease until", f.LeaseUntil}, {"finished", f.Finished}, {"expires", f.Expires}} {
		if t.at != nil {
			field(t.name, t.at.Format(time.RFC3339))
		}
	}
	field("retention", f.Retention)
	field("fingerprint", f.Fingerprint)
	if len(f.Points) > 0 {
		field("points", fmt.Sprintf("%q", f.Points))
	}
	if f.state != idempotency.StateDone {
		return
	}
	field("status", fmt.Sprint(f.Status))
	if f.Sealed {
		field("result", "sealed: this command has no key for its headers, trailers and body")
		return
	}
	for _, h := range f.Header {
		field("header", fmt.Sprintf("%s: %q", h.Name, h.Value))
	}
	for _, h := range f.Trailer {
		field("trailer", fmt.Sprintf("%s: %q", h.Name, h.Value))
	}
	field("body", fmt.Sprintf("%d bytes%s", f.BodyBytes, map[bool]string{true: ", not kept"}[f.BodyOmitted]))
	if len(f.Body) > 0 {
		fmt.Fprintf(w, "\n%s\n", printable(f.Body))
	}
}

// printable is text as it is, and anything else in hex, so that no terminal obeys it.
func printable(b []byte) string {
	bad := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 }
	if s := string(b); utf8.ValidString(s) && !strings.ContainsFunc(s, bad) {
		return s
	}
	return hex.Dump(b)
}

// meaning says what to make of a state.
func meaning(r *idempotency.Record, s idempotency.State) string {
	switch {
	case s == idempotency.StateUnknown && r.State == idempotency.StateRunning:
		return " (its lease is over, and it is not resolved: see gabion idempotency resolve)"
	case s == idempotency.StateUnknown:
		return " (see gabion idempotency resolve)"
	case s == idempotency.StateRetryable && r.State == idempotency.StateRunning:
		return " (its lease is over: the next claim runs it again)"
	}
	return ""
}

func resolveFlags(set *pflag.FlagSet, o *options) {
	keyFlag(set, o)
	set.BoolVar(&o.done, "done", false, "it was done: the next request is answered with --status and --body-file")
	set.BoolVar(&o.nothing, "nothing", false, "it had no effect, and can have none any more: the next request runs")
	set.IntVar(&o.status, "status", 0, "the `status` of the answer; 200 if it is missing")
	set.StringVar(&o.file, "body-file", "", "a `file` with the answer's body; without it the body counts as not kept")
}

func resolve(ctx context.Context, store idempotency.Store, o *options, w io.Writer) error {
	id, err := o.id()
	if err != nil {
		return err
	}
	found := idempotency.Change{State: idempotency.StateRetryable}
	if o.done {
		if err := unsealed(ctx, store); err != nil {
			return err
		}
		found = idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: max(o.status, 200), Omitted: o.file == ""}}
		if o.file != "" {
			if found.Result.Body, err = os.ReadFile(o.file); err != nil {
				return err
			}
		}
	}
	if err := (idempotency.Admin{Store: store}).Resolve(ctx, id, found); err != nil {
		return err
	}
	return said(w, o, id, map[bool]string{true: "done", false: "retryable"}[o.done])
}

// unsealed returns an error if the store has sealed results: one that is put beside them
// unsealed is not read. It looks at a part of the store, and so may miss the only one.
func unsealed(ctx context.Context, store idempotency.Store) error {
	looked, results := 0, 0
	for e, err := range (idempotency.Admin{Store: store}).All(ctx) {
		if err != nil {
			return err
		}
		if looked++; e.Err == nil && e.Record.State == idempotency.StateDone {
			r, err := store.Get(ctx, e.ID)
			if err != nil && !errors.Is(err, idempotency.ErrUnreadable) {
				return err
			}
			if r.Result.IsSealed() {
				return operator.Wrongf("the store's results are sealed, and this command has no key: resolve it in Go, with idempotency.Admin on the sealed store")
			}
			results++
		}
		if looked == 1000 || results == 10 {
			return nil
		}
	}
	return nil
}

func forgetFlags(set *pflag.FlagSet, o *options) {
	keyFlag(set, o)
	set.BoolVar(&o.yes, "yes", false, "it is meant: the key will run as new")
}

func forget(ctx context.Context, store idempotency.Store, o *options, w io.Writer) error {
	id, err := o.id()
	if err != nil {
		return err
	}
	if err := (idempotency.Admin{Store: store}).Forget(ctx, id); err != nil {
		return err
	}
	return said(w, o, id, "absent")
}

// said tells what a record is now.
func said(w io.Writer, o *options, id idempotency.ID, state string) error {
	if o.json {
		return operator.PrintJSON(w, map[string]string{"id": id.Hex(), "state": state})
	}
	_, err := fmt.Fprintf(w, "%s is %s\n", id.Hex(), state)
	return err
}
