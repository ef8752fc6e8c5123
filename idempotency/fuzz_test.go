package idempotency

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func FuzzRecordCodec(f *testing.F) { // L
	whole := Record{State: StateDone, Guarantee: GuaranteeReexecute, Token: 7, Attempt: 2, LeaseUntil: -8, Expires: math.MaxInt64, Retention: time.Hour,
		Points: []Point{{"p", []byte("q")}}, Result: Result{Status: 201, Header: []Field{{"A", "b"}}, Body: []byte("body"), Omitted: true}}
	for _, r := range []Record{{}, whole} {
		b, _ := r.MarshalBinary()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Record
		if r.UnmarshalBinary(b) != nil {
			return
		}
		out, err := r.MarshalBinary()
		if err != nil || again.UnmarshalBinary(out) != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v, then %+v (%v)", r, again, err)
		}
	})
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	whole, _ := Record{State: StateDone, Result: Result{Status: 200, Body: []byte("body")}}.MarshalBinary()
	for i := range whole {
		var r Record
		if err := r.UnmarshalBinary(whole[:i]); err == nil {
			t.Fatalf("%d bytes of %d were read", i, len(whole))
		}
		flipped := bytes.Clone(whole)
		flipped[i] ^= 4
		if err := r.UnmarshalBinary(flipped); err == nil {
			t.Fatalf("a flipped bit in byte %d was not noticed", i)
		}
	}
	newer := bytes.Clone(whole)
	newer[0] = 2
	var r Record
	if err := r.UnmarshalBinary(newer); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a newer version: %v", err)
	}
}

// What happened to a key, as one who only reads the history would say.
type history []happened

type happened struct {
	at    Moment
	event event // begin, extend, complete, release or abandon
	who   int64 // token: granted, or of the holder
	lease time.Duration
	body  string
	g     Guarantee
}

const modelRetention = 210 // of sevens, as time is, so that things happen at the very end

// what recomputes the record from the whole history: the state, the token that
// holds it and the end of its lease.
func (h history) what(now Moment) (s State, token int64, until Moment, g Guarantee, body string) {
	var ends Moment
	for _, e := range h {
		switch e.event {
		case begin:
			s, token, until, g = StateRunning, e.who, e.at+Moment(e.lease), e.g
		case extend:
			until = e.at + Moment(e.lease)
		case complete:
			s, body = StateDone, e.body
		case release:
			s = StateRetryable
		case abandon:
			s = StateUnknown
		}
		ends = e.at + modelRetention
	}
	switch {
	case s != StateRunning && s != StateAbsent && now >= ends:
		s = StateAbsent
	case s == StateRunning && now >= until && g == GuaranteeReexecute && now >= until+modelRetention:
		s = StateAbsent
	}
	return s, token, until, g, body
}

// Any sequence of claims, changes and passing time by several owners: the machine
// says what the naive history says, no two tokens are live, and what is done stays.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 1, 10, 0, 3, 0, 1, 30, 0, 0, 3, 200, 3, 0})
	f.Add([]byte{4, 0, 200, 0, 0, 0, 12, 1, 99, 1, 5, 0, 0})
	f.Fuzz(follow)
}

func TestMachineFollowsHistories(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		script := make([]byte, 60)
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		follow(t, script)
	}
}

func follow(t *testing.T, script []byte) {
	var r Record
	var h history
	var held []int64 // every token ever granted
	now := Moment(-500)
	for ; len(script) >= 2; script = script[2:] {
		op, arg := script[0]%8, script[1]
		now += Moment(script[0] / 8 * 7)
		state, token, until, g, body := h.what(now)
		if op < 3 {
			c := Claim{Owner: [16]byte{1, arg, byte(len(h))}, Guarantee: Guarantee(arg % 2), Lease: time.Duration(arg), Retention: modelRetention}
			a, changed := r.Begin(c, now)
			if want := wantDecision(state, now >= until, g, c.Guarantee); a.Decision != want {
				t.Fatalf("at %d: %v, want %v of %v\n%+v", now, a.Decision, want, state, h)
			}
			switch a.Decision {
			case DecisionRun:
				if len(held) > 0 && a.Record.Token <= held[len(held)-1] {
					t.Fatalf("token %d after %v", a.Record.Token, held)
				}
				held = append(held, a.Record.Token)
				h = append(h, happened{at: now, event: begin, who: a.Record.Token, lease: c.Lease, g: c.Guarantee})
			case DecisionUnknown:
				if state == StateRunning {
					h = append(h, happened{at: now, event: abandon})
				}
			case DecisionReplay:
				if string(a.Record.Result.Body) != body {
					t.Fatalf("replayed %q, want %q", a.Record.Result.Body, body)
				}
			}
			if changed {
				r = a.Record
			}
			continue
		}
		if op == 7 {
			next, changed := r.Sweep(now)
			lost := state == StateRunning && now >= until && g != GuaranteeReexecute
			if gone := state == StateAbsent && r.State != StateAbsent; changed != (lost || gone) {
				t.Fatalf("swept: %v, lost %v, gone %v", changed, lost, gone)
			}
			if lost {
				h = append(h, happened{at: now, event: abandon})
			} else if changed {
				next.Token = r.Token // the test has no clock that a token could come from
			}
			r = next
			continue
		}
		if len(held) == 0 {
			continue
		}
		who := held[int(arg)%len(held)]
		change := Change{State: [...]State{3: StateRunning, 4: StateDone, 5: StateRetryable, 6: StateUnknown}[op], Lease: time.Duration(arg), Result: Result{Body: fmt.Append(nil, who)}}
		next, changed, err := r.Apply(Ref{Token: who}, change, now)
		live := state == StateRunning && who == token
		if changed != live {
			t.Fatalf("at %d %v by %d: changed %v (%v), the holder is %d of %v", now, change.State, who, changed, err, token, state)
		}
		if changed {
			h = append(h, happened{at: now, event: change.event(), who: who, lease: change.Lease, body: string(change.Result.Body)})
		}
		r = next
	}
}

func wantDecision(s State, over bool, had, asks Guarantee) Decision {
	switch {
	case s == StateAbsent, s == StateRetryable:
		return DecisionRun
	case s == StateDone:
		return DecisionReplay
	case s == StateUnknown:
		return DecisionUnknown
	case !over:
		return DecisionInProgress
	case had == GuaranteeReexecute && asks == GuaranteeReexecute:
		return DecisionRun
	}
	return DecisionUnknown
}

// Every situation and event has at most one line, and every line is reachable.
func TestTableIsAFunction(t *testing.T) {
	seen := map[[2]int]bool{}
	for _, m := range moves {
		at := [2]int{int(m.from), int(m.on)}
		if seen[at] {
			t.Errorf("two lines for situation %d and %v", m.from, m.on)
		}
		seen[at] = true
	}
	for from := range situations {
		for _, on := range []event{begin, beginRecover} {
			if table[from][on] == nil {
				t.Errorf("situation %d has no answer to %v", from, on)
			}
		}
	}
	for _, m := range moves {
		if m.from == done && m.to != StateDone && m.on != forget {
			t.Errorf("done becomes %v on %v", m.to, m.on)
		}
	}
}

func FuzzCanonicalJSON(f *testing.F) { // L
	f.Add([]byte(`{"a":[1,2.0,null],"b":"\u00e9"}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	r := &http.Request{Header: http.Header{"Content-Type": {"application/json"}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		once := CanonicalJSON(r, body)
		if len(once) == 0 && len(body) > 0 {
			t.Fatalf("%q became nothing", body)
		}
		if !bytes.Equal(CanonicalJSON(r, body), once) {
			t.Fatalf("%q has two forms", body)
		}
	})
}

// Records share slices with their readers: a change makes new ones.
func TestChangesLeaveOldRecordsAlone(t *testing.T) {
	r := Record{State: StateRunning, Token: 1, LeaseUntil: 10, Points: make([]Point, 1, 8)}
	a, _, err := r.Apply(Ref{Token: 1}, Change{State: StateRunning, Point: &Point{Name: "a"}}, 0)
	b, _, _ := r.Apply(Ref{Token: 1}, Change{State: StateRunning, Point: &Point{Name: "b"}}, 0)
	if err != nil || len(r.Points) != 1 || a.Points[1].Name != "a" || b.Points[1].Name != "b" {
		t.Errorf("%v %v %v (%v)", r.Points, a.Points, b.Points, err)
	}
	for n := range 40 {
		next, _, err := r.Apply(Ref{Token: 1}, Change{State: StateRunning, Point: &Point{Name: fmt.Sprint(n)}}, 0)
		if full := n >= maxPoints-1; full != errors.Is(err, ErrTooLarge) {
			t.Fatalf("point %d: %v", n+1, err)
		}
		r = next
	}
}
