package crash

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

const ms = time.Millisecond

// charged is an answer by a run, called at a moment and answered 10 ms later.
func charged(at time.Duration, token int64) Answer {
	c := Charge{Scope: "a", Key: "k", Amount: 5, Token: token, Attempt: int(token), Nonce: "n" + string(rune('0'+token))}
	return Answer{Amount: 5, Call: at, Back: at + 10*ms, Status: 201, Body: c.Nonce, Charge: c}
}

func replay(a Answer, at time.Duration) Answer {
	a.Call, a.Back, a.Replayed = at, at+10*ms, true
	return a
}

func refusedAs(at time.Duration, p idempotency.Problem) Answer {
	return Answer{Amount: 5, Call: at, Back: at + 10*ms, Status: 409, Problem: string(p)}
}

func silent(at time.Duration) Answer {
	return Answer{Amount: 5, Call: at, Back: at + 10*ms, Err: errors.New("reset")}
}

func unrecorded(a Answer) Answer {
	a.Unrecorded = true
	return a
}

// effects are both parts of a charge for each run.
func effects(tokens ...int64) (all []Effect) {
	for _, n := range tokens {
		all = append(all, Effect{"a/k", n, int(n), Debit, 5}, Effect{"a/k", n, int(n), Credit, 5})
	}
	return all
}

func TestHistoriesThatAreSound(t *testing.T) {
	one := charged(0, 1)
	other := refusedAs(60*ms, "mismatch")
	other.Amount = 6
	for name, h := range map[string]History{
		"one run and its replay":            {Guarantee: hold, Calm: true, Answers: []Answer{one, replay(one, 50*ms), other}, Effects: effects(1)},
		"a lost run, unknown for ever":      {Guarantee: hold, Answers: []Answer{silent(0), refusedAs(50*ms, "outcome-unknown")}, Effects: effects(1)[:1]},
		"a transaction that was rolled":     {Guarantee: tx, Answers: []Answer{silent(0), charged(50*ms, 2)}, Effects: effects(2)},
		"a takeover whose first is refused": {Guarantee: reexecute, Answers: []Answer{unrecorded(one), charged(5*ms, 2), replay(charged(5*ms, 2), 50*ms)}, Effects: effects(1, 2)},
		"in progress until the lease ends":  {Guarantee: hold, Lost: 5 * ms, Answers: []Answer{silent(0), refusedAs(90*ms, "in-progress")}},
		"in progress by another's run":      {Guarantee: reexecute, Lost: 5 * ms, Answers: []Answer{silent(0), silent(1900 * ms), refusedAs(2*time.Second, "in-progress")}},
		"a lock that hides the record":      {Guarantee: tx, Calm: true, Answers: []Answer{one, refusedAs(50*ms, "in-progress")}, Effects: effects(1)},
		"a store that was down afterwards":  {Guarantee: hold, Answers: []Answer{one, refusedAs(50*ms, "store-unavailable")}, Effects: effects(1)},
	} {
		h.Scope, h.Key, h.Lease = "a", "k", 100*ms
		if broken := h.Check(); len(broken) > 0 {
			t.Errorf("%s: %v", name, broken)
		}
	}
}

// Each way to break a promise is found, and under its own name.
func TestHistoriesThatAreBroken(t *testing.T) {
	one := charged(0, 1)
	change := func(a Answer, f func(*Answer)) Answer { f(&a); return a }
	for _, c := range []struct {
		want string // the invariant that must be among those broken
		name string
		h    History
	}{
		{"I1", "two effects under hold", History{Guarantee: hold, Answers: []Answer{one}, Effects: effects(1, 2)}},
		{"I1", "two effects under tx", History{Guarantee: tx, Answers: []Answer{charged(0, 2)}, Effects: effects(1, 2)}},
		{"I1", "an answer without its effect", History{Guarantee: tx, Answers: []Answer{one}}},
		{"I1", "an answer with half its effect", History{Guarantee: hold, Answers: []Answer{one}, Effects: effects(1)[:1]}},
		{"I1", "half a transaction", History{Guarantee: tx, Answers: []Answer{silent(0)}, Effects: effects(1)[:1]}},
		{"I1", "a transaction without its record", History{Guarantee: tx, Answers: []Answer{silent(0), refusedAs(50*ms, "outcome-unknown")}, Effects: effects(1)}},
		{"I1", "an effect twice in one run", History{Guarantee: reexecute, Answers: []Answer{one}, Effects: append(effects(1), effects(1)...)}},
		{"I1", "more effects than runs", History{Guarantee: reexecute, Effects: []Effect{{"a/k", 1, 1, Debit, 5}, {"a/k", 2, 1, Debit, 5}}}},
		{"I1", "a run repeated for no reason", History{Guarantee: reexecute, Calm: true, Answers: []Answer{charged(0, 2)}, Effects: effects(1, 2)}},
		{"I2", "a replay with another body", History{Guarantee: hold, Answers: []Answer{one, change(replay(one, 50*ms), func(a *Answer) { a.Body += "x" })}, Effects: effects(1)}},
		{"I2", "a replay with another header", History{Guarantee: reexecute, Answers: []Answer{one, change(replay(one, 50*ms), func(a *Answer) { a.Header = "Location: /2\n" })}, Effects: effects(1)}},
		{"I2", "a replay with another status", History{Guarantee: reexecute, Answers: []Answer{one, change(replay(one, 5*ms), func(a *Answer) { a.Status = 200 })}, Effects: effects(1)}},
		{"I3", "two answers for one key", History{Guarantee: hold, Answers: []Answer{unrecorded(one), charged(5*ms, 2)}, Effects: effects(1)}},
		{"I3", "another request's answer", History{Guarantee: reexecute, Answers: []Answer{change(one, func(a *Answer) { a.Amount = 6 })}, Effects: effects(1)}},
		{"I3", "two requests ran under one key", History{Guarantee: reexecute, Effects: []Effect{{"a/k", 1, 1, Debit, 5}, {"a/k", 2, 2, Debit, 6}}}},
		{"I4", "done, then unknown", History{Guarantee: hold, Answers: []Answer{one, refusedAs(50*ms, "outcome-unknown")}, Effects: effects(1)}},
		{"I4", "done, then in progress", History{Guarantee: reexecute, Answers: []Answer{one, refusedAs(50*ms, "in-progress")}, Effects: effects(1)}},
		{"I4", "done, then run again", History{Guarantee: reexecute, Answers: []Answer{one, charged(50*ms, 2)}, Effects: effects(1, 2)}},
		{"I4", "done, and its body's fingerprint forgotten", History{Guarantee: hold, Answers: []Answer{one, change(replay(one, 50*ms), func(a *Answer) { a.Amount = 6 })}, Effects: effects(1)}},
		{"I5", "the first is recorded after it was taken over", History{Guarantee: reexecute, Answers: []Answer{replay(one, 50*ms)}, Effects: effects(1, 2)}},
		{"I5", "two runs are recorded", History{Guarantee: reexecute, Answers: []Answer{one, charged(5*ms, 2)}, Effects: effects(2)}},
		{"I5", "a token that was granted twice", History{Guarantee: reexecute, Effects: []Effect{{"a/k", 1, 1, Debit, 5}, {"a/k", 1, 2, Debit, 5}}}},
		{"I5", "tokens that shrink", History{Guarantee: reexecute, Effects: []Effect{{"a/k", 2, 1, Debit, 5}, {"a/k", 1, 2, Debit, 5}}}},
		{"I6", "in progress for ever", History{Guarantee: hold, Lost: 5 * ms, Answers: []Answer{silent(0), refusedAs(2*time.Second, "in-progress")}}},
		{"I7", "another scope's answer", History{Guarantee: reexecute, Answers: []Answer{change(one, func(a *Answer) { a.Charge.Scope = "b" })}, Effects: effects(1)}},
	} {
		c.h.Scope, c.h.Key, c.h.Lease = "a", "k", 100*ms
		broken := c.h.Check()
		if !slices.ContainsFunc(broken, func(err error) bool { return strings.HasPrefix(err.Error(), c.want+":") }) {
			t.Errorf("%s: %s: found %v in\n%v", c.want, c.name, broken, &c.h)
		}
	}
}
