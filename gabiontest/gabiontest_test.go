package gabiontest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// What the package's comment shows.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(gabiontest.Recorder)
		bank := gabion.New("bank", policy.Policy{}, gabion.WithObserver(seen))
		script := gabiontest.NewScript(gabiontest.Step{Hang: true}, gabiontest.Step{})
		err := bank.Run(t.Context(), script.Run, gabion.WithKey("order-7"))
		gabiontest.WantReason(t, err, policy.None)
		seen.WantAttempts(t, 2)
		gabiontest.NothingHeld(t, bank)
	})
}

var errDown = classify.Transient(errors.New("down"))

// judged is a testing.TB that keeps its messages, to see assertions fail.
type judged struct {
	testing.TB
	said  []string
	after []func()
}

func (j *judged) Helper()                   {}
func (j *judged) Cleanup(f func())          { j.after = append(j.after, f) }
func (j *judged) Errorf(f string, v ...any) { j.said = append(j.said, fmt.Sprintf(f, v...)) }

// judge runs f with one, and its cleanups.
func judge(f func(*judged)) []string {
	j := new(judged)
	f(j)
	for _, end := range j.after {
		end()
	}
	return j.said
}

func wantSaid(t *testing.T, said []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(said) > 0:
		t.Errorf("it complains: %q", said)
	case want != "" && (len(said) != 1 || !strings.Contains(said[0], want)):
		t.Errorf("it says %q, want %q", said, want)
	}
}

func TestScriptGoesThroughItsStepsAndRepeatsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gabiontest.NewScript(append(gabiontest.Fails(2, errDown), gabiontest.Step{Takes: time.Second}, gabiontest.Step{Err: errors.New("last")})...)
		start := time.Now()
		var got []string
		for range 5 {
			n, err := s.Call(t.Context())
			got = append(got, fmt.Sprint(n, " ", err))
		}
		if want := "[1 down 2 down 3 <nil> 4 last 5 last]"; fmt.Sprint(got) != want || time.Since(start) != time.Second {
			t.Errorf("got %v after %s, want %s", got, time.Since(start), want)
		}
		if n, err := gabiontest.NewScript().Call(t.Context()); n != 1 || err != nil {
			t.Errorf("without steps: %d, %v", n, err)
		}
	})
}

func TestScriptStepsListenToTheirContext(t *testing.T) {
	gone := errors.New("gone")
	cases := []struct {
		name  string
		step  gabiontest.Step
		takes time.Duration
		err   error
	}{
		{"listens", gabiontest.Step{Takes: time.Minute, Err: errDown}, time.Second, gone},
		{"deaf", gabiontest.Step{Takes: time.Minute, Deaf: true, Err: errDown}, time.Minute, errDown},
		{"hangs", gabiontest.Step{Hang: true}, time.Second, gone},
		{"quick", gabiontest.Step{Takes: time.Millisecond, Err: errDown}, time.Millisecond, errDown},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := time.AfterFunc(time.Second, func() { cancel(gone) })
			defer stop.Stop()
			start := time.Now()
			if err := gabiontest.NewScript(c.step).Run(ctx); err != c.err || time.Since(start) != c.takes {
				t.Errorf("%s: %v after %s", c.name, err, time.Since(start))
			}
			cancel(nil)
		})
	}
}

func TestScriptLeavesWithoutAResult(t *testing.T) {
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("it panicked with %v", v)
			}
		}()
		gabiontest.NewScript(gabiontest.Step{Panic: "boom"}).Run(t.Context())
	}()
	returned := false
	var wg sync.WaitGroup
	wg.Go(func() {
		gabiontest.NewScript(gabiontest.Step{Goexit: true}).Run(t.Context())
		returned = true
	})
	wg.Wait()
	if returned {
		t.Error("it returned")
	}
}

// Attempts that overlap each get their own number.
func TestScriptNumbersAttemptsThatOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gabiontest.NewScript(gabiontest.Step{Takes: time.Minute}, gabiontest.Step{Takes: time.Second})
		d := gabion.New("db", policy.Policy{Safe: true, Retry: policy.Retry{Budget: policy.Budget{Off: true}}, Hedge: policy.Hedge{Max: 1, Delay: time.Second}, Timeout: policy.Timeout{Call: time.Hour, Attempt: time.Hour}, Breaker: policy.Breaker{Off: true}})
		got, err := gabion.Do(t.Context(), d, s.Call)
		if got != 2 || err != nil {
			t.Errorf("the winner is %d, %v", got, err)
		}
		s = gabiontest.NewScript(gabiontest.Step{Takes: 2 * time.Second}, gabiontest.Step{Takes: time.Minute})
		if got, err = gabion.Do(t.Context(), d, s.Call); got != 1 || err != nil || s.Attempts() != 2 {
			t.Errorf("the winner is %d, %v, of %d", got, err, s.Attempts())
		}
	})
}

func TestScriptSeesKeyNumberAndDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Timeout: policy.Timeout{Attempt: 4 * time.Second}})
		s := gabiontest.NewScript(gabiontest.Step{Err: errDown}, gabiontest.Step{})
		if err := d.Run(t.Context(), s.Run, gabion.WithKey("k")); err != nil {
			t.Fatal(err)
		}
		for i, a := range s.Seen() {
			if a.Key != "k" || a.Attempt != i+1 || a.Deadline.Sub(a.At) != 4*time.Second {
				t.Errorf("%+v", a)
			}
		}
		s.Run(context.Background())
		if a := s.Seen()[2]; a.Key != "" || a.Attempt != 0 || !a.Deadline.IsZero() {
			t.Errorf("outside of a call: %+v", a)
		}
	})
}

// recorded makes three calls: a retried one that fails, one that succeeds, one that
// is refused.
func recorded(t *testing.T) (*gabion.Dependency, *gabiontest.Recorder) {
	r := new(gabiontest.Recorder)
	d := gabion.New("db", policy.Policy{
		Safe: true, Retry: policy.Retry{Attempts: 2, Backoff: backoff.Backoff{Kind: backoff.Constant, Base: time.Second, Cap: time.Second}},
	}, gabion.WithObserver(r))
	d.Run(t.Context(), gabiontest.NewScript(gabiontest.Step{Err: errDown}).Run)
	d.Run(t.Context(), gabiontest.NewScript().Run)
	b, _ := d.Breaker("")
	b.ForceOpen(0)
	d.Run(t.Context(), gabiontest.NewScript().Run)
	return d, r
}

func TestRecorderCountsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := recorded(t)
		l := r.Load()
		if l.Calls != 3 || l.Attempts != 3 || l.Failed != 2 || l.Hedges != 0 || l.Refused[policy.BreakerOpen] != 1 || l.Amplification() != 1 {
			t.Errorf("%+v", l)
		}
		want := []string{
			"attempt_sent #1", "attempt_settled #1 server", "waiting for backoff 1s", "attempt_sent #2", "attempt_settled #2 server",
			"returned after 2 attempts_exhausted", "attempt_sent #1", "attempt_settled #1 success", "returned after 1",
			"breaker_moved closed→forced_open by forced", "attempt_refused breaker_open", "returned after 0 breaker_open",
		}
		if got := r.Decisions(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("decisions:\n%s", strings.Join(got, "\n"))
		}
		if (gabiontest.Load{}).Amplification() != 0 {
			t.Error("no calls have no amplification")
		}
	})
}

func TestAssertionsFailWhenTheyShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := recorded(t)
		wantSaid(t, judge(func(j *judged) { r.WantAttempts(j, 3) }), "")
		wantSaid(t, judge(func(j *judged) { r.WantAttempts(j, 2) }), "3 attempts were sent, want 2")
		wantSaid(t, judge(func(j *judged) { r.WantLoad(j, 1, 0) }), "")
		wantSaid(t, judge(func(j *judged) { r.WantLoad(j, 0.5, 1) }), "3 attempts for 3 calls")
		err := &gabion.Error{Dependency: "db", Reason: policy.BreakerOpen}
		wantSaid(t, judge(func(j *judged) { gabiontest.WantReason(j, err, policy.BreakerOpen) }), "")
		wantSaid(t, judge(func(j *judged) { gabiontest.WantReason(j, nil, policy.None) }), "")
		wantSaid(t, judge(func(j *judged) { gabiontest.WantReason(j, err, policy.Paced) }), "want paced")
		wantSaid(t, judge(func(j *judged) { gabiontest.WantReason(j, nil, policy.Paced) }), "want paced")
		wantSaid(t, judge(func(j *judged) { gabiontest.WantReason(j, errDown, policy.None) }), "want ok")
	})
}

func TestNothingHeldFailsWhenSomethingIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{MinCalls: 1, Open: time.Second, OpenJitter: policy.Off, Probes: 1}, Bulkhead: policy.Bulkhead{Limit: 1}})
		wantSaid(t, judge(func(j *judged) { gabiontest.NothingHeld(j, d) }), "")
		a, _ := gabion.Begin(t.Context(), d)
		wantSaid(t, judge(func(j *judged) { gabiontest.NothingHeld(j, d) }), "db: 1 slots in use and 0 calls queued")
		a.Close(nil)
		for _, partition := range []string{"", "eu"} {
			in := gabion.WithPartition(partition)
			d.Run(t.Context(), gabiontest.NewScript(gabiontest.Step{Err: errDown}).Run, in)
			time.Sleep(time.Second)
			a, err := gabion.Begin(t.Context(), d, in)
			if err != nil {
				t.Fatal(err)
			}
			said := judge(func(j *judged) { gabiontest.NothingHeld(j, d) })
			if len(said) != 2 || !strings.Contains(said[1], "1 probes out") {
				t.Errorf("a probe of partition %q is out, it says %q", partition, said)
			}
			a.Close(nil)
		}
		wantSaid(t, judge(func(j *judged) { gabiontest.NothingHeld(j, d) }), "")
	})
}

func TestNoLeaksFailsWhenAGoroutineIsLeft(t *testing.T) {
	wantSaid(t, judge(func(j *judged) { gabiontest.NoLeaks(j) }), "")
	// In a bubble the seconds of grace take no time.
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var wg sync.WaitGroup
		wantSaid(t, judge(func(j *judged) {
			gabiontest.NoLeaks(j)
			wg.Go(func() { <-release })
		}), "1 goroutines were started")
		close(release)
		wg.Wait()
		wantSaid(t, judge(func(j *judged) {
			gabiontest.NoLeaks(j)
			wg.Go(func() { time.Sleep(time.Second) }) // needs a moment
		}), "")
	})
}

// A goroutine that is there at the start and ends, as that of the test before may,
// makes no room for one that is left.
func TestNoLeaksSeesAGoroutineInThePlaceOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, release := make(chan struct{}), make(chan struct{})
		go func() { <-end }()
		wantSaid(t, judge(func(j *judged) {
			gabiontest.NoLeaks(j)
			close(end)
			synctest.Wait()
			go func() { <-release }()
		}), "1 goroutines were started")
		close(release)
	})
}
