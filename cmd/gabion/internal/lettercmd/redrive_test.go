package lettercmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

func TestRedrive(t *testing.T) {
	for _, c := range []struct {
		fact, args string
		code       int
		says       string
	}{
		{"a dry run orders nothing", "--group billing --rate 300/m --dry-run", 0, "would run 2 letters of billing at 5/s, in about 1s\n       2  attempts_exhausted\n"},
		{"what is unknown is left out, with what to do", "--group billing --dry-run", 0, "left out: 1 letter whose outcome is unknown"},
		{"a group", "--group billing", 0, ": 2 letters of billing at 5/s"},
		{"by reason", "--reason permanent --rate 30/h", 0, ": 1 letter of mail at 30/h, in about 2m"},
		{"nothing that picks letters", "--rate 5", 2, "which letters?"},
		{"nothing that picks letters, and a dry run", "--dry-run", 2, "of 2 groups (billing, mail)"},
		{"all, and some", "--all --group billing", 2, "--all takes every letter"}, {"all, and an ID", "ORDER1 --all", 2, "--all takes every letter"},
		{"two groups at once", "--all", 2, "of 2 groups (billing, mail)"},
		{"by ID", "ORDER1", 0, ": 1 letter of billing"},
		{"by ID, what is unknown", "ORDER3", 1, "resolve it first: ORDER3. Nothing was ordered"},
		{"by IDs, one of which is unknown", "ORDER1 ORDER3", 1, "gabion deadletter resolve ORDER3 --as done|nothing --note TEXT"},
		{"a dry run by ID, what is unknown", "ORDER3 --dry-run", 1, "resolve it first"},
		{"IDs and flags", "ORDER1 --group billing", 2, "not both"},
		{"nothing that matches", "--group none", 1, "nothing to run"},
		{"JSON", "--group billing --json", 0, `"total": 2`},
		{"JSON says what is left out", "--group billing --json", 0, `"unresolved": 1`},
		{"a group of which all are unknown", "--reason outcome_unknown", 1, "left out: 1 letter whose outcome is unknown"},
		{"JSON of a dry run", "--group billing --json --dry-run", 0, `"unresolved": 1`},
		{"no rate", "--rate 0", 2, "more than zero"}, {"a rate below zero", "--rate -5/s", 2, "more than zero"},
		{"an invalid rate", "--rate fast", 2, "such as 5/s"}, {"a rate of days", "--rate 5/d", 2, "such as 5/s"}, {"a rate without a unit", "--rate 5/", 2, "such as 5/s"},
		{"no number", "--rate NaN", 2, "such as 5/s"}, {"no end", "--rate Inf", 2, "at most"}, {"a rate that is a slip", "--rate 1e6", 2, "at most 10000/s"}, {"hardly any", "--rate 0.001/h", 2, "one letter a day"},
		{"a dry run to follow", "--dry-run --follow", 2, "--follow"},
		{"an invalid time", "--since soon", 2, "90m or 3d"}, {"times the wrong way round", "--since 1h --before 2h", 2, "not earlier"},
		{"no ID", "order-1", 2, "no letter's ID"}, {"an ID that is too short", "abc", 2, "at least 6 digits"}, {"an unknown ID", "00000000", 2, "there is no letter"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			m, ids := shop(t)
			named := strings.NewReplacer("ORDER1", ids["order-1"], "ORDER3", ids["order-3"])
			args := strings.Fields(named.Replace(c.args))
			code, out, errs := on(t.Context(), m, append([]string{"redrive", "--by", "ann"}, args...)...)
			if code != c.code || !strings.Contains(out+errs, named.Replace(c.says)) {
				t.Errorf("%d\n%s%s", code, out, errs)
			}
			all, err := m.Drives(t.Context(), "")
			if want := c.code == 0 && !strings.Contains(c.args, "--dry-run"); err != nil || len(all) > 0 != want || want && all[0].By != "ann" {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

// A counting store counts the letters that are listed.
type counting struct {
	deadletter.Store
	listed int
}

func (s *counting) List(ctx context.Context, q deadletter.Query, from string, limit int) (deadletter.Page, error) {
	p, err := s.Store.List(ctx, q, from, limit)
	s.listed += len(p.Letters)
	return p, err
}

// What a redrive takes and leaves out is counted by the store, and not read from it.
func TestAGroupIsCountedWithoutBeingRead(t *testing.T) {
	m, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		l := deadletter.Letter{ID: deadletter.LetterID("billing", "k", []byte{byte(i), byte(i >> 8)}), Group: "billing", Source: "orders", Reason: "attempts_exhausted"}
		if i%1000 == 0 {
			l.Reason = deadletter.Unknown
		}
		if err := m.Put(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, says string }{
		{"redrive --group billing --dry-run", "would run 4995 letters"}, {"redrive --source orders --dry-run", "    4995  attempts_exhausted"},
		{"redrive --dry-run --json", `"unresolved": 5`}, {"redrive --group billing", ": 4995 letters"},
	} {
		s := &counting{Store: m}
		code, out, errs := on(t.Context(), s, strings.Fields(c.args)...)
		if code != 0 || s.listed > 5 || !strings.Contains(out, c.says) || !strings.Contains(out+errs, "left out: 5 letters whose outcome is unknown") && !strings.Contains(c.args, "json") {
			t.Errorf("%s: %d letters were listed\n%s%s", c.args, s.listed, out, errs)
		}
	}
}

// ambiguous is a store in which two letters begin alike.
type ambiguous struct{ deadletter.Store }

func (ambiguous) List(context.Context, deadletter.Query, string, int) (deadletter.Page, error) {
	return deadletter.Page{Letters: []deadletter.Letter{{ID: "abcdef01"}, {ID: "abcdef02"}}}, nil
}

func TestAPrefixOfTwoLettersIsRefused(t *testing.T) {
	if code, _, errs := on(t.Context(), ambiguous{}, "show", "abcdef"); code != 2 || !strings.Contains(errs, "abcdef01, abcdef02. Give more digits") {
		t.Error(code, errs)
	}
}

// consume takes letters of billing and settles them as done, or as failed from the n-th on.
func consume(t *testing.T, store deadletter.Store, failFrom int) {
	for n := 0; ; {
		leases, again, err := store.Take(t.Context(), "billing", 1, time.Minute)
		if err != nil {
			return
		}
		for _, l := range leases {
			v := deadletter.Verdict{State: deadletter.Done}
			if n++; n >= failFrom {
				v = deadletter.Verdict{State: deadletter.Waiting, Reason: "attempts_exhausted", Failure: &deadletter.Failure{At: time.Now(), Message: "still down"}}
			}
			if err := store.Settle(t.Context(), l, v); err != nil {
				t.Error(err)
			}
		}
		again = cmp.Or(again, time.Second)
		select {
		case <-t.Context().Done():
			return
		case <-time.After(again):
		}
	}
}

func TestFollow(t *testing.T) {
	for _, c := range []struct {
		fact     string
		letters  int
		failFrom int // zero means that no consumer runs
		give     time.Duration
		code     int
		says     []string
	}{
		{"all succeed", 20, 1000, 0, 0, []string{"driving: 0 of 20 letters done", "finished: 20 of 20 letters done, 0 failed, 0 left"}},
		{"one fails", 20, 20, 0, 1, []string{"finished: 19 of 20 letters done, 1 failed", "1 letter failed and waits again", "ls --group billing"}},
		{"too few succeed", 100, 6, 0, 1, []string{"stopped by itself: 5 of 100 letters done, 6 failed, 0 left", "fewer than half", "it stopped by itself", "95 letters wait again"}},
		{"no consumer runs", 5, 0, time.Minute, 130, []string{"nothing was taken for 30s: does a consumer of billing run", "the redrive goes on: gabion deadletter stop "}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := deadletter.NewMemory(deadletter.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for i := range c.letters {
					if err := m.Put(t.Context(), deadletter.Letter{ID: deadletter.LetterID("billing", "k", []byte{byte(i)}), Group: "billing", Reason: "attempts_exhausted"}); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.give > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.give)
					defer cancel()
				}
				if c.failFrom > 0 {
					go consume(t, m, c.failFrom)
				}
				code, out, errs := on(ctx, m, "redrive", "--group", "billing", "--rate", "5/s", "--follow")
				if code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
				for _, want := range c.says {
					if !strings.Contains(out+errs, want) {
						t.Errorf("no %q in\n%s%s", want, out, errs)
					}
				}
			})
		})
	}
}

// flaky is a store that goes away once a redrive was ordered.
type flaky struct{ deadletter.Store }

var errAway = errors.New("connection refused")

func (flaky) Drives(context.Context, string) ([]deadletter.Drive, error) { return nil, errAway }

// When the store goes away under --follow, the command says that the redrive goes on.
func TestFollowingAStoreThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := shop(t)
		code, out, errs := on(t.Context(), flaky{m}, "redrive", "--group", "billing", "--follow")
		all, err := m.Drives(t.Context(), "")
		if err != nil || len(all) != 1 || all[0].State != deadletter.Driving {
			t.Fatalf("%+v, %v", all, err)
		}
		want := "redrive " + all[0].ID + " can't be looked at, and goes on as far as is known: connection refused. gabion deadletter redrives shows it"
		if code != failed || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, %s%s, want %q", code, out, errs, want)
		}
	})
}

func TestRedrivesAndStop(t *testing.T) {
	m, _ := shop(t)
	if code, out, _ := on(t.Context(), m, "redrives"); code != 0 || out != "no redrives\n" {
		t.Error(code, out)
	}
	on(t.Context(), m, "redrive", "--group", "billing", "--by", "ann")
	all, _ := m.Drives(t.Context(), "")
	code, out, errs := on(t.Context(), m, "redrive", "--group", "billing", "--rate", "1000/s", "--by", "bob")
	if code != 1 || !strings.Contains(errs, "another redrive of the group goes on: "+all[0].ID+" by ann") {
		t.Errorf("a second one: %d, %s%s", code, out, errs)
	}
	code, out, errs = on(t.Context(), m, "redrives", "--group", "billing")
	if code != 0 || !strings.Contains(out, all[0].ID+"  ") || !strings.Contains(out, "billing  5/s  by ann\n  driving: 0 of 2 letters done, 0 failed, 2 left\n") {
		t.Errorf("%s%s", out, errs)
	}
	if code, out, errs = on(t.Context(), m, "stop", all[0].ID, "--by", "bob", "--note", "the bank asked for it"); code != 0 || !strings.Contains(out, "stopped: ") || !strings.Contains(out, "the bank asked for it") {
		t.Error(code, out, errs)
	}
	if code, _, errs = on(t.Context(), m, "stop", all[0].ID); code != 1 || !strings.Contains(errs, "the redrive is stopped") {
		t.Error(code, errs)
	}
	for _, args := range [][]string{{"stop", "nonsense"}, {"stop"}, {"stop", "1", "2"}} {
		if code, _, errs = on(t.Context(), m, args...); code != 2 || !strings.Contains(errs, "gabion deadletter redrives lists them") {
			t.Error(args, code, errs)
		}
	}
	if code, out, _ = on(t.Context(), m, "redrives", "--json"); code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, `"state": "stopped"`) {
		t.Error(code, out)
	}
}
