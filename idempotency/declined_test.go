package idempotency

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An answer that its handler declines to keep leaves the key to the next request, also a
// mended one. A success is kept, and so is what was committed with its effects.
func TestDeclinedAnswersAreNotKept(t *testing.T) {
	listed := []int{401, 403, 404, 409, 423, 422, 503}
	for _, c := range []struct {
		name    string
		status  int
		listed  bool // in the configuration; else said by the handler
		declare func(context.Context)
		keeps   string // the guarantees under which it is kept all the same
	}{
		{"listed 401", 401, true, nil, ""},
		{"listed 404", 404, true, nil, ""},
		{"listed 409", 409, true, nil, ""},
		{"listed 422", 422, true, nil, ""},
		{"listed 503", 503, true, nil, ""},
		{"not listed 400", 400, true, nil, "hold reexecute tx"},
		{"said of a 400", 400, false, DoNotKeep, ""},
		{"said of a 404", 404, false, DoNotKeep, ""},
		{"said of a 429", 429, false, DoNotKeep, ""},
		{"said of a 500", 500, false, DoNotKeep, ""},
		{"said of a 200", 200, false, DoNotKeep, "hold reexecute tx"},
		{"said of a 303", 303, false, DoNotKeep, "hold reexecute tx"},
		{"without effect, which is not the same", 404, false, NoEffect, "hold reexecute tx"},
		{"its effects are wanted, under tx alone", 404, true, CommitError, "tx"},
		{"its effects are wanted and it is declined", 404, false, func(ctx context.Context) { CommitError(ctx); DoNotKeep(ctx) }, "tx"},
	} {
		for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute, GuaranteeTx} {
			t.Run(fmt.Sprint(c.name, ", ", g), func(t *testing.T) {
				config := Config{RunnerConfig: RunnerConfig{Guarantee: g}}
				if c.listed {
					config.NotKept = listed
				}
				var attempts []int
				u := newUploads(t, "", config, func(w http.ResponseWriter, r *http.Request) {
					attempts = append(attempts, Attempt(r.Context()))
					if c.declare != nil {
						c.declare(r.Context())
					}
					answer(c.status, "no")(w, r)
				})
				first, second := u.send(post("k", "x")), u.send(post("k", "x"))
				mended := u.send(post("k", "mended"))
				if first.Code != c.status || second.Code != c.status {
					t.Errorf("answered %d, then %d", first.Code, second.Code)
				}
				if strings.Contains(c.keeps, g.String()) {
					u.wantReplay(first, second)
					u.wantProblem(mended, 422, problemMismatch)
					u.wantRuns(1)
					return
				}
				if second.Header().Get(headerReplayed) != "" || mended.Code != c.status {
					t.Errorf("second %v, mended %d", second.Header(), mended.Code)
				}
				u.wantRuns(3)
				if fmt.Sprint(attempts) != "[1 1 1]" {
					t.Errorf("attempts %v: nothing is on record", attempts)
				}
			})
		}
	}
}

// What is declined and what is released are told apart: a release keeps the request.
func TestReleasedAnswersKeepTheirRequest(t *testing.T) {
	r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, answer(500, "no"))
	r.send(post("k", "x"))
	r.wantProblem(r.send(post("k", "another")), 422, problemMismatch)
	r.work = func(_ http.ResponseWriter, req *http.Request) {
		DoNotKeep(req.Context())
		panic("declined")
	}
	r.attempt(post("k", "x"))
	r.work = answer(201, "done")
	if w := r.send(post("k", "another")); w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r.wantProblem(r.send(post("k", "x")), 422, problemMismatch)
}

// Recovery points belong to the request that was declined.
func TestDeclinedAnswersLeaveNoPoints(t *testing.T) {
	phases := 0
	r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, func(w http.ResponseWriter, req *http.Request) {
		Phase(req.Context(), "one", func(context.Context) ([]byte, error) { phases++; return nil, nil })
		DoNotKeep(req.Context())
		w.WriteHeader(404)
	})
	before := r.record("k").Token
	for range 2 {
		r.send(post("k", "x"))
		if got := r.record("k"); len(got.Points) != 0 || got.Token <= before || got.State != StateRetryable {
			t.Errorf("left %+v", got)
		}
		before = r.record("k").Token
	}
	if phases != 2 {
		t.Errorf("%d phases ran", phases)
	}
}

func TestStatusesThatCanNotBeDeclined(t *testing.T) {
	for _, status := range []int{0, 200, 302, 399, 600} {
		if err := (Config{NotKept: []int{404, status}}).Validate(); err == nil {
			t.Errorf("%d: accepted", status)
		}
	}
	if err := (Config{NotKept: []int{400, 599}}).Validate(); err != nil {
		t.Error(err)
	}
}

// An answer that no transaction holds back ends in a word that does not ask to come back.
func TestAnswerTooLargeForATransaction(t *testing.T) {
	u := newUploads(t, "", Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeTx}, MaxResponseBody: 64}, func(w http.ResponseWriter, _ *http.Request) {
		for range heldBodies + 1 {
			w.Write(make([]byte, 64))
		}
	})
	for range 2 {
		u.wantProblem(u.send(post("k", "x")), 500, problemAnswerTooLarge)
		if got := u.state(); got != StateAbsent {
			t.Errorf("the record is %v", got)
		}
	}
	u.wantRuns(2)
}
