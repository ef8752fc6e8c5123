package overload

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/testrace"
)

// livedInABubble runs a case with net/http where no machine is late, and compares with
// the lab, which plays the same calls.
func livedInABubble(t *testing.T, w *World, c Case) *Run {
	t.Helper()
	var r *Run
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = w.Run(c, NewPipes()); err != nil {
			t.Fatal(err)
		}
	})
	lived := r.Figures()
	if r.requests != int64(len(r.attempts.sent)) {
		t.Errorf("%d requests arrived, and the clients say that they sent %d", r.requests, len(r.attempts.sent))
	}
	predicted, err := w.Predict(t.Context(), c, r.Ping.Way(w.Work), 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Compare(predicted, lived) {
		if d.What == perCall && (c.Callers == Default || c.Callers == Limited) {
			switch c.Server { // two real runs differ by as much
			case Learned:
				d.Within *= 3 // the limit is being learned
			case Fixed:
				d.Within *= 2 // the clients' pace moves: six runs of six seeds were off by -6 to 6 %, and by -0.7 % together
			}
		}
		if t.Log(d); d.Wrong() {
			t.Error("the lab is off by more than that")
		}
	}
	if t.Failed() {
		a, _ := json.Marshal(lived)
		b, _ := json.Marshal(predicted)
		t.Logf("\nreal %s\nlab  %s", a, b)
	}
	return r
}

// TestNothingRaces runs every case for seconds, for the race detector, and judges only what
// needs no time: that nothing is lost between the callers and the server, and that the
// overload was one. The two tests below need minutes, and make test runs them without it.
func TestNothingRaces(t *testing.T) {
	w := Small
	w.Before, w.Trigger, w.After, w.Pings = time.Second, 2*time.Second, time.Second, 20
	for _, p := range Cases() {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, err := w.Run(p.Case, NewPipes())
				if err != nil {
					t.Fatal(err)
				}
				if sent := int64(len(r.attempts.sent)); r.requests != sent || sent < r.served || r.served == 0 {
					t.Errorf("%d requests arrived and %d were served, and the clients say that they sent %d", r.requests, r.served, sent)
				}
				if f := r.Figures(); f.Before.Answered < 0.99 || f.Trigger.Answered > 0.9 {
					t.Errorf("%.2f of the calls were answered before the trigger, and %.2f during it", f.Before.Answered, f.Trigger.Answered)
				}
			})
		})
	}
}

// TestWithoutProtectionTheServerCollapses is what the others are compared with.
func TestWithoutProtectionTheServerCollapses(t *testing.T) {
	testrace.Serial(t)
	for _, c := range []struct {
		fact string
		Case
		recovers bool
	}{
		{"who tries once is answered again when the queue is worked off", Case{Bare, Plain}, true},
		{"naive retries keep the server down when the trigger is gone", Case{Bare, Naive}, false},
		{"the default policy lets the server recover", Case{Bare, Default}, true},
		{"a learned limit of the clients does so too", Case{Bare, Limited}, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			t.Parallel()
			f := livedInABubble(t, &Small, c.Case).Figures()
			if f.Before.Answered < 0.99 {
				t.Errorf("%.3f of the calls were answered before the trigger", f.Before.Answered)
			}
			if f.Trigger.Goodput > 0.25 { // it takes one of the eight seconds until the queue is too long
				t.Errorf("goodput under overload was %.2f of the capacity: that is no collapse", f.Trigger.Goodput)
			}
			if (f.Recovery != Never) != c.recovers {
				t.Errorf("recovery took %g s", f.Recovery)
			}
		})
	}
}

// TestAdmissionKeepsAServerAtItsCapacity is the same with protection, whatever the callers do.
func TestAdmissionKeepsAServerAtItsCapacity(t *testing.T) {
	testrace.Serial(t)
	for _, c := range []struct {
		fact string
		Case
		finds time.Duration // out what it goes by: that it is an overload, or what the limit is
		times float64       // the p99 of an idle server
	}{
		{"callers who try once", Case{Fixed, Plain}, 4 * time.Second, 2},
		{"naive retries", Case{Fixed, Naive}, 4 * time.Second, 2},
		{"the default policy", Case{Fixed, Default}, 4 * time.Second, 2},
		{"clients that learn a limit as well", Case{Fixed, Limited}, 4 * time.Second, 2},
		// A learned limit allows some more than there are workers, of ten more than of a hundred.
		{"a limit that is learned under naive retries", Case{Learned, Naive}, 15 * time.Second, 2.5},
		{"a limit that is learned under the default policy", Case{Learned, Default}, 20 * time.Second, 2.5},
	} {
		t.Run(c.fact, func(t *testing.T) {
			t.Parallel()
			w := Small
			w.Trigger, w.After = c.finds+6*time.Second, 10*time.Second
			r := livedInABubble(t, &w, c.Case)
			then, recovery := r.phase(w.Before+c.finds, w.Before+w.Trigger), r.Figures().Recovery
			if then.Goodput < 0.9 {
				t.Errorf("goodput under overload was %.2f of the capacity", then.Goodput)
			}
			if idle := float64(r.Ping.P99) / 1e6; then.Admitted > c.times*idle {
				t.Errorf("p99 of what was admitted was %.0f ms, of an idle server's %.0f", then.Admitted, idle)
			}
			soon := 5.0
			if c.Callers == Default || c.Callers == Limited {
				soon = 8 // of four clients one is spaced now and then so far that it takes a second or two more
			}
			if recovery == Never || recovery > soon {
				t.Errorf("recovery took %g s", recovery)
			}
		})
	}
}
