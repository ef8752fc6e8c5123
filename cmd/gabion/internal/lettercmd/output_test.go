package lettercmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// A full disk takes nothing.
type full struct{}

// Write implements io.Writer.
func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What can't be written is a failure: a payload that was to be saved is not.
func TestWhatCantBeWrittenIsAFailure(t *testing.T) {
	m, ids := shop(t)
	for _, args := range []string{
		"ls", "ls --json", "ls --group none", "show " + ids["order-1"], "show " + ids["order-1"] + " --payload raw", "show " + ids["order-1"] + " --json",
		"stats", "stats --json", "stats --group none", "export", "redrives", "redrive --group billing --dry-run", "redrive --group billing",
		"redrives --json", "resolve " + ids["order-3"] + " --as nothing --note x", "drop " + ids["order-3"] + " --note x --yes",
	} {
		var stderr bytes.Buffer
		c := command{func(context.Context, *options) (deadletter.Store, func(), error) { return m, func() {}, nil }}
		code := c.main(t.Context(), append(strings.Fields(args), "--store", "sqlite:x"), full{}, &stderr)
		if code != failed || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%s: %d, %q", args, code, stderr.String())
		}
	}
}

// What follows the first line of an error is a line of its own, and nothing in it is obeyed.
func TestErrorsOfSeveralLines(t *testing.T) {
	broken := func(err error) string {
		var stderr bytes.Buffer
		c := command{func(context.Context, *options) (deadletter.Store, func(), error) { return nil, nil, err }}
		c.main(t.Context(), []string{"ls", "--store", "sqlite:x"}, io.Discard, &stderr)
		return stderr.String()
	}
	for _, c := range []struct {
		fact string
		err  error
		want string
	}{
		{"with what to do", explained(errors.New("no such table: x")), "gabion deadletter ls: no such table: x\n  it has no letters: is it the store"},
		{"of a database with several addresses", errors.New("failed:\n\ta: refused\n\tb: \x1b[31mrefused"), "gabion deadletter ls: failed:\n  a: refused\n  b: \\x1b[31mrefused\n"},
		{"interrupted", fmt.Errorf("it goes on: %w", context.Canceled), "gabion deadletter ls: it goes on: interrupted\n"},
	} {
		if got := broken(c.err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.fact, got, c.want)
		}
	}
}

// Where letters are in several states, the state has a column, and the reason keeps its own.
func TestStatesHaveAColumn(t *testing.T) {
	m, ids := shop(t)
	if code, _, errs := on(t.Context(), m, "drop", ids["order-2"], "--note", "x", "--yes"); code != fine {
		t.Fatal(errs)
	}
	_, out, _ := on(t.Context(), m, "ls", "--state", "waiting,dropped")
	lines := strings.Split(out, "\n")
	at := strings.Index(lines[0], "state   reason              runs")
	if at < 0 {
		t.Fatalf("the first line is %q", lines[0])
	}
	for i, want := range []string{"waiting attempts_exhausted     5", "dropped attempts_exhausted     5", "waiting outcome_unknown        1"} {
		if got := lines[i+1]; len(got) < at || !strings.HasPrefix(got[at:], want) {
			t.Errorf("line %d is %q, want %q below the names", i+1, got, want)
		}
	}
}

// A letter that the policy does not admit is taken again and again, and was not run each time.
func TestTakenIsNotRun(t *testing.T) {
	m, ids := shop(t)
	if _, err := m.Order(t.Context(), deadletter.Query{Group: "billing"}, deadletter.Drive{Rate: 1e4}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		leases, _, err := m.Take(t.Context(), "billing", 1, time.Minute)
		if err != nil || len(leases) != 1 || string(leases[0].ID) != ids["order-1"] {
			t.Fatal(leases, err)
		}
		if err := m.Settle(t.Context(), leases[0], deadletter.Verdict{State: deadletter.Waiting}); err != nil {
			t.Fatal(err)
		}
	}
	_, out, _ := on(t.Context(), m, "show", ids["order-1"])
	for _, want := range []string{"taken       2 times for a run again, admitted or not\n", "runs        5\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s does not say %q", out, want)
		}
	}
}
