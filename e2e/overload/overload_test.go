package overload

import (
	"encoding/json"
	"testing"
	"testing/synctest"
)

// livedInABubble runs a case with net/http where no machine is late, and compares with
// the lab, which plays the same calls.
func livedInABubble(t *testing.T, w *World, c Case) Figures {
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
	predicted, err := w.Predict(t.Context(), c, r.Ping.Way(w.Work), Same, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Compare(predicted, lived) {
		if policyFree[c.Callers] {
			d.Within /= 4 // no machine is late, and no call is another one
		} // else who makes a call matters, and the lab draws that
		if t.Log(d); d.Wrong() {
			t.Error("the lab is off by more than that")
		}
	}
	if t.Failed() {
		a, _ := json.Marshal(lived)
		b, _ := json.Marshal(predicted)
		t.Logf("\nreal %s\nlab  %s", a, b)
	}
	return lived
}

// policyFree are callers of whom none knows anything.
var policyFree = map[string]bool{Plain: true, Naive: true}

// TestWithoutProtectionTheServerCollapses is what the others are compared with.
func TestWithoutProtectionTheServerCollapses(t *testing.T) {
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
			f := livedInABubble(t, &Small, c.Case)
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
