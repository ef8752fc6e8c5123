package idempotency

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A cutStore makes the next claims and loses their answers.
type cutStore struct {
	Store
	cut atomic.Int64
}

func (s *cutStore) Begin(ctx context.Context, c Claim) (Answer, error) {
	a, err := s.Store.Begin(ctx, c)
	if s.cut.Add(-1) >= 0 {
		return Answer{}, errDown
	}
	return a, err
}

// losesFirst is work whose first run is lost.
func losesFirst(r *rig, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if r.runs.Load() == 1 {
			panic("lost")
		}
		then(w, req)
	}
}

// attempt sends a request whose work may panic.
func (r *rig) attempt(req *http.Request) {
	defer func() { _ = recover() }()
	r.send(req)
}

func TestRepeatedRecoverClaimIsAnsweredRecover(t *testing.T) {
	c := Claim{Owner: [16]byte{1}, Lease: time.Second, Retention: time.Hour, Recover: true}
	lost := Record{State: StateUnknown, Token: 5, Retention: time.Hour, Expires: 1 << 60}
	a, _ := lost.Begin(c, 100)
	again, changed := a.Record.Begin(c, 101)
	if a.Decision != DecisionRecover || again.Decision != DecisionRecover || changed || again.Record.Token != a.Record.Token {
		t.Errorf("first %v, repeated %v", a.Decision, again.Decision)
	}
	c.Owner = [16]byte{2}
	if other, _ := a.Record.Begin(c, 101); other.Decision != DecisionInProgress {
		t.Errorf("another claim: %v", other.Decision)
	}
}

// The work is not run on the claim of the right to find out, however often its answer
// is lost.
func TestLostRecoverAnswerRunsNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		cuts   int64
		status int
	}{
		{"one answer is lost", 1, 201},
		{"all answers are lost", claimTries, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{RunnerConfig: RunnerConfig{Recover: func(context.Context, Record) (Change, error) {
					return Change{State: StateDone, Result: Result{Status: 201, Body: []byte("found")}}, nil
				}}}, nil)
				r.work = losesFirst(r, answer(200, "done again"))
				cut := &cutStore{Store: r.store}
				r.h.store = cut
				r.attempt(post("k", "x"))
				cut.cut.Store(c.cuts)
				if w := r.send(post("k", "x")); w.Code != c.status {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				pass(2 * time.Second) // the claim is given back long before its lease is over
				if w := r.send(post("k", "x")); w.Code != 201 || w.Body.String() != "found" {
					t.Errorf("then %d %s", w.Code, w.Body)
				}
				r.wantRuns(1)
			})
		})
	}
}

// A claim that can't be given back is an event: under Hold it blocks its key.
func TestClaimThatIsNotGivenBackIsTold(t *testing.T) {
	for name, busy := range map[string]int64{"the store stays deaf": 0, "too much waits for it": maxLater} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{}, answer(200, "done"))
				deaf := &deafStore{Store: r.store}
				deaf.deaf.Store(&errDown)
				r.h.store = deaf
				r.h.later.Store(busy)
				r.send(post("k", "x"))
				pass(time.Minute)
				if n := r.seen.count(eventCompleteFailed); n != 1 {
					t.Errorf("told %d times", n)
				}
				r.wantRuns(0)
			})
		})
	}
}

// A lateStore answers claims late.
type lateStore struct {
	Store
	late atomic.Int64
}

func (s *lateStore) Begin(ctx context.Context, c Claim) (Answer, error) {
	a, err := s.Store.Begin(ctx, c)
	time.Sleep(time.Duration(s.late.Load()))
	return a, err
}

// A claim that is answered late leaves less than a third of its lease to the first
// heartbeat: another run must not begin beside a run that knows nothing of it.
func TestFirstHeartbeatCountsFromTheClaim(t *testing.T) {
	const lease, late = 2 * time.Second, 1900 * time.Millisecond
	beside := func(live *atomic.Int64, ctx context.Context) {
		if live.Add(1) > 1 {
			t.Error("two at once")
		}
		defer live.Add(-1)
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second):
		}
	}
	t.Run("a run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var live atomic.Int64
			r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute, Lease: lease}}, func(w http.ResponseWriter, req *http.Request) { beside(&live, req.Context()) })
			slow := &lateStore{Store: r.store}
			r.h.store = slow
			slow.late.Store(int64(late))
			go r.send(post("k", "x"))
			pass(lease + 10*time.Millisecond)
			slow.late.Store(0)
			r.send(post("k", "x"))
			pass(time.Minute)
		})
	})
	t.Run("Recover", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var live atomic.Int64
			r := newRig(t, Config{RunnerConfig: RunnerConfig{Lease: lease, Recover: func(ctx context.Context, _ Record) (Change, error) {
				beside(&live, ctx)
				return Change{}, nil
			}}}, func(http.ResponseWriter, *http.Request) { panic("lost") })
			slow := &lateStore{Store: r.store}
			r.h.store = slow
			r.attempt(post("k", "x"))
			slow.late.Store(int64(late))
			go r.send(post("k", "x"))
			pass(lease + 10*time.Millisecond)
			slow.late.Store(0)
			r.send(post("k", "x"))
			pass(time.Minute)
		})
	})
}

// A waiter whose time is up while the store is asked does not ask again.
func TestWaiterThatIsOverAsksNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Wait: 5 * time.Second}}, works(time.Minute))
		slow := &lateStore{Store: r.store}
		r.h.store = slow
		go r.send(post("k", "x"))
		synctest.Wait()
		slow.late.Store(int64(1500 * time.Millisecond))
		for range 10 { // its end and its next look are both due: either may come first
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			r.store.begun.Store(0)
			r.send(post("k", "x").WithContext(ctx))
			if n := r.store.begun.Load(); n != 2 {
				t.Errorf("the store was asked %d times, want 2", n)
			}
		}
		pass(time.Hour)
	})
}

// A hungTx does not answer claims in transactions.
type hungTx struct{ Store }

func (hungTx) Tx(ctx context.Context, _ Claim, _ Work) (Answer, error) {
	<-ctx.Done()
	return Answer{}, context.Cause(ctx)
}

// A patientTx grants a claim late, and then its work takes its time.
type patientTx struct{ Store }

func (patientTx) Tx(ctx context.Context, c Claim, run Work) (Answer, error) {
	pass(900 * time.Millisecond)
	_, _, err := run(ctx, Record{Token: 1, Attempt: 1})
	return Answer{Decision: DecisionRun}, err
}

func TestStoreTimeoutBoundsAClaimUnderTx(t *testing.T) {
	for _, c := range []struct {
		name string
		tx   TxStore
		took time.Duration
		err  error
	}{
		{"a claim that hangs", hungTx{NewMemoryStore(0, 0)}, time.Second, errNoClaim},
		{"work is not bounded", patientTx{NewMemoryStore(0, 0)}, 900*time.Millisecond + 20*time.Second, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := NewRunner(c.tx, RunnerConfig{Guarantee: GuaranteeTx, StoreTimeout: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				_, err = r.Do(t.Context(), theWork, [32]byte{}, func(ctx context.Context) (Result, Ending) {
					pass(20 * time.Second)
					return Result{}, EndingSucceeded
				})
				if took := time.Since(start); took != c.took || !errors.Is(err, c.err) {
					t.Errorf("%v after %v", err, took)
				}
				h, err := New(Global, c.tx, answer(200, ""), Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeTx, StoreTimeout: time.Second}})
				if err != nil {
					t.Fatal(err)
				}
				start = time.Now()
				h.ServeHTTP(httptest.NewRecorder(), post("k", "x"))
				if took := time.Since(start); took > time.Second {
					t.Errorf("the handler answered after %v", took)
				}
			})
		})
	}
}

// A thief is a store that says a run has lost its record when it brings its result.
type thief struct{ Store }

func (s thief) Apply(ctx context.Context, r Ref, c Change) error {
	if c.State == StateDone {
		return ErrLeaseLost
	}
	return s.Store.Apply(ctx, r, c)
}

// The refusal that takes the place of an answer has nothing of its header, and all
// that was there before.
func TestRefusalInPlaceOfAnAnswer(t *testing.T) {
	h, err := New(Global, thief{NewMemoryStore(0, 0)}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{"Content-Length": "2", "Set-Cookie": "a=b", "Location": "/1", "X-Outer": "changed", "Trailer": "X-Sum"} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(201)
		io.WriteString(w, "ok")
		w.Header().Set("X-Sum", "1")
	}), Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "stays")
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("x"))
	req.Header.Set(headerKey, "k")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 409 || !strings.Contains(string(body), string(problemUnknown)) {
		t.Errorf("%d %q, %v", resp.StatusCode, body, err)
	}
	for name, want := range map[string]string{"Set-Cookie": "", "Location": "", "X-Sum": "", "X-Outer": "stays"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestResultFoundWithoutAStatusIsReplayedAs200(t *testing.T) {
	r := newRig(t, Config{RunnerConfig: RunnerConfig{Recover: func(context.Context, Record) (Change, error) {
		return Change{State: StateDone, Result: Result{Body: []byte("found")}}, nil
	}}}, func(http.ResponseWriter, *http.Request) { panic("lost") })
	r.attempt(post("k", "x"))
	for range 2 {
		if w := r.send(post("k", "x")); w.Code != 200 || w.Body.String() != "found" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	r.wantRuns(1)
}

// Recover may list a header's lines apart from each other.
func TestResultFoundWithLinesInAnyOrder(t *testing.T) {
	r := newRig(t, Config{RunnerConfig: RunnerConfig{Recover: func(context.Context, Record) (Change, error) {
		return Change{State: StateDone, Result: Result{Status: 201, Header: []Field{{"Link", "a"}, {"Location", "/1"}, {"Link", "b"}, {"Vary", "x"}, {"Link", "c"}}}}, nil
	}}}, func(http.ResponseWriter, *http.Request) { panic("lost") })
	r.attempt(post("k", "x"))
	w := r.send(post("k", "x"))
	if got := w.Header(); !slices.Equal(got["Link"], []string{"a", "b", "c"}) || got.Get("Location") != "/1" || got.Get("Vary") != "x" {
		t.Errorf("%d %v", w.Code, got)
	}
}

// As in net/http, where it panics in the handler and not in a replay.
func TestInvalidStatusIsNotStored(t *testing.T) {
	for _, status := range []int{-1, 42, 99, 1000} {
		r := newRig(t, Config{}, nil)
		r.work = func(w http.ResponseWriter, _ *http.Request) {
			defer func() {
				if recover() == nil {
					t.Errorf("%d: no panic in the handler", status)
				}
				panic("lost")
			}()
			w.WriteHeader(status)
		}
		r.attempt(post("k", "x"))
		if got := r.record("k"); got.State != StateUnknown {
			t.Errorf("%d: %v, %+v", status, got.State, got.Result)
		}
		r.wantProblem(r.send(post("k", "x")), 409, problemUnknown)
	}
}

// A smallStore counts headers too.
type smallStore struct {
	Store
	most int
}

func (s *smallStore) Apply(ctx context.Context, r Ref, c Change) error {
	n := len(c.Result.Body)
	for _, fields := range [][]Field{c.Result.Header, c.Result.Trailer} {
		for _, f := range fields {
			n += len(f.Name) + len(f.Value)
		}
	}
	if n > s.most {
		return ErrTooLarge
	}
	return s.Store.Apply(ctx, r, c)
}

// What was done stays done when its answer's header is too large to keep.
func TestHeadersTooLargeForTheStore(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: g}}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", strings.Repeat("x", 2000))
				w.WriteHeader(201)
			})
			r.h.store = &smallStore{r.store, 1000}
			if got := r.send(post("k", "x")).Code; got != 201 {
				t.Errorf("%v: %d", g, got)
			}
			pass(time.Minute)
			r.wantProblem(r.send(post("k", "x")), 409, problemNotRetained)
			if res := r.record("k").Result; res.Status != 201 || !res.Omitted || res.Header != nil {
				t.Errorf("%v: kept %+v", g, res)
			}
			if n := r.seen.count(eventBodyOmitted); n != 1 {
				t.Errorf("%v: told %d times", g, n)
			}
			r.wantRuns(1)
		})
	}
}

// Routes that share a store and differ in what was stripped of their paths don't share
// requests.
func TestStrippedPathIsAnotherRequest(t *testing.T) {
	store := NewMemoryStore(0, 0)
	mux := http.NewServeMux()
	for _, route := range []string{"/charges", "/refunds"} {
		h, err := New(Global, store, answer(200, route), Config{})
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle(route+"/", http.StripPrefix(route, h))
	}
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/charges/7", 200, "/charges"}, {"/refunds/7", 422, ""}, {"/charges/7", 200, "/charges"},
		{"http://h/charges/7", 200, "/charges"}, {"http://h/refunds/7", 422, ""}, {"http://h/refunds/7?a=/charges/7", 422, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader("x"))
		r.Header.Set(headerKey, "k")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != c.status || c.body != "" && w.Body.String() != c.body {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
		}
	}
}

func TestMethodsThatProtectNothing(t *testing.T) {
	for _, c := range []struct {
		methods []string
		sound   bool
	}{
		{nil, true},
		{[]string{"POST", "PUT"}, true},
		{[]string{}, false},
		{[]string{"POST", ""}, false},
		{[]string{"post"}, false},
		{[]string{"POST", "Patch"}, false},
	} {
		if err := (Config{Methods: c.methods}).Validate(); (err == nil) != c.sound {
			t.Errorf("%q: %v", c.methods, err)
		}
	}
}
