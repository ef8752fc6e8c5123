package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// stretching is a dependency whose attempts have a second of the call's three, and whose calls
// begin a tenth of a second apart.
type stretching struct {
	*trial
	now clock.Instant
}

func newStretching(t *testing.T, change func(*policy.Policy)) *stretching {
	p := policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: time.Second}, Retry: policy.Retry{Attempts: 1},
		Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	}
	if change != nil {
		change(&p)
	}
	return &stretching{newTrial(t, p), clock.Instant(time.Minute)}
}

// had makes n calls whose attempts would take so long, and returns how many of these had more
// time than a second.
func (s *stretching) had(n int, takes time.Duration) (longer int) {
	for range n {
		s.now = s.now.Add(100 * time.Millisecond)
		if s.attempt(s.now, takes) > time.Second {
			longer++
		}
	}
	return longer
}

// open leads to where attempts have all of the call.
func (s *stretching) open(t *testing.T) {
	t.Helper()
	s.had(20, 1500*time.Millisecond)
	if s.had(10, 1500*time.Millisecond) != 10 {
		t.Fatal("answers come late, and attempts are cut off")
	}
}

const quick, late, never = 20 * time.Millisecond, 1500 * time.Millisecond, time.Hour

func TestAttemptsThatAreCutOffInSeriesHaveMoreTimeWhereThatHelps(t *testing.T) {
	for _, c := range []struct {
		fact   string
		change func(*policy.Policy)
		play   func(*testing.T, *stretching)
	}{
		{"in health none has", nil, func(t *testing.T, s *stretching) {
			if n := s.had(100, quick); n > 0 {
				t.Errorf("%d had more", n)
			}
			if s.state.main.cuts() != nil {
				t.Error("something is kept of attempts that end in time")
			}
		}},
		{"now and then one is cut off: none has", nil, func(t *testing.T, s *stretching) {
			for range 50 {
				if n := s.had(1, never) + s.had(9, quick); n > 0 {
					t.Fatalf("%d had more", n)
				}
			}
		}},
		{"all are cut off, and late answers come: all have", nil, func(t *testing.T, s *stretching) { s.open(t) }},
		{"nothing ever comes: one in four is tried, and no more", nil, func(t *testing.T, s *stretching) {
			if n := s.had(400, never); n < 50 || n > 101 {
				t.Errorf("%d of 400 had more", n)
			}
		}},
		{"attempts end in time again: none has, and all is forgotten", nil, func(t *testing.T, s *stretching) {
			s.open(t)
			s.had(60, quick)
			if n := s.had(2, never); n > 0 {
				t.Errorf("%d of 2 had more", n)
			}
			if s.had(60, quick); s.state.main.cuts().word.Load() != 0 {
				t.Error("something is kept of attempts that end in time")
			}
		}},
		{"a trial is no longer than eight attempts", func(p *policy.Policy) { p.Timeout.Call = time.Minute }, func(t *testing.T, s *stretching) {
			s.had(2, never)
			if got := s.attempt(s.now, never); got != 8*time.Second {
				t.Errorf("it had %v", got)
			}
		}},
		{"late answers no longer come: none but trials", nil, func(t *testing.T, s *stretching) {
			s.open(t)
			s.had(30, never)
			if n := s.had(100, never); n > 26 {
				t.Errorf("%d of 100 had more", n)
			}
		}},
		{"a quarter of an hour without one that was cut off: none has", nil, func(t *testing.T, s *stretching) {
			s.open(t)
			s.now = s.now.Add(15*time.Minute + 3*time.Second)
			if n := s.had(1, never); n > 0 {
				t.Error("it had more")
			}
		}},
		{"a call in ten minutes: what the last ones came to is known", nil, func(t *testing.T, s *stretching) {
			s.open(t)
			for range 5 {
				if s.now = s.now.Add(10 * time.Minute); s.had(1, late) != 1 {
					t.Error("it had no more")
				}
			}
		}},
		{"strict: none ever has", func(p *policy.Policy) { p.Timeout.Strict = true }, func(t *testing.T, s *stretching) {
			if n := s.had(100, late); n > 0 || s.state.main.cuts() != nil {
				t.Errorf("%d had more", n)
			}
		}},
		{"measured times: all have", func(p *policy.Policy) { p.Timeout.Percentile = .9 }, func(t *testing.T, s *stretching) {
			s.had(40, quick)
			s.had(60, late)
			if n := s.had(10, late); n != 10 {
				t.Errorf("%d of 10 had more", n)
			}
		}},
		{"no bound of the call: four times an attempt's", func(p *policy.Policy) { p.Timeout.Call = policy.Off }, func(t *testing.T, s *stretching) {
			s.open(t)
			if got := s.attempt(s.now, late); got != 4*time.Second {
				t.Errorf("it had %v", got)
			}
		}},
		{"no more than timeout.last, where that is longer", func(p *policy.Policy) { p.Timeout.Last = 2 * time.Second }, func(t *testing.T, s *stretching) {
			if n := s.had(40, never); n != 40 { // none of them can be followed
				t.Errorf("%d of 40 had more", n)
			}
			if got := s.attempt(s.now, never); got != 2*time.Second {
				t.Errorf("it had %v", got)
			}
		}},
		{"no attempt timeout: nothing to lengthen", func(p *policy.Policy) { p.Timeout.Attempt = policy.Off }, func(t *testing.T, s *stretching) {
			s.had(30, late)
			if s.state.main.cuts() != nil {
				t.Error("something is kept")
			}
		}},
	} {
		t.Run(c.fact, func(t *testing.T) { c.play(t, newStretching(t, c.change)) })
	}
}

// Where the next attempt makes good what was cut off, nothing is gained by waiting longer.
func TestAttemptsWhoseRetriesSucceedAreStillCutOff(t *testing.T) {
	s := newStretching(t, func(p *policy.Policy) {
		p.Retry = policy.Retry{Attempts: 2, Hold: policy.Off, Budget: policy.Budget{Off: true}}
	})
	longer := 0
	for range 400 { // the first hangs for longer than a second, the second does not
		s.now = s.now.Add(100 * time.Millisecond)
		c, first := s.begin(s.now)
		if first.Deadline.Sub(first.Sent) > time.Second {
			longer++
			s.home(s.now.Add(late), c, first, policy.ClassSuccess)
			continue
		}
		s.home(first.Deadline, c, first, policy.ClassTimeout)
		again := c.Next(first.Deadline)
		at := again.Again
		if again.Verb == Wait {
			again = c.Next(at)
		}
		s.home(again.Ticket.Sent.Add(quick), c, again.Ticket, policy.ClassSuccess)
	}
	if longer < 1 || longer > 15 {
		t.Errorf("%d of 400 had more time", longer)
	}
}

// An attempt shows something only if it was its own time, or none, that ended it.
func TestWhatShowsThatAttemptsOutlastTheirTime(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		fact   string
		params Params
		took   time.Duration
		class  policy.Class
		cancel bool
		past   bool
	}{
		{"cut off", Params{}, time.Second, policy.ClassTimeout, false, true},
		{"it failed late", Params{}, time.Second, policy.ClassServer, false, true},
		{"it failed early", Params{}, 999 * ms, policy.ClassServer, false, false},
		{"its caller left early", Params{}, 999 * ms, policy.ClassIgnored, true, false},
		{"its caller left late", Params{}, 1001 * ms, policy.ClassIgnored, true, true},
		{"its call had less time", Params{Timeout: 500 * ms}, 500 * ms, policy.ClassTimeout, false, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := newStretching(t, nil)
			var call Call
			c.params.Safe = true
			call.Begin(s.state, 0, &c.params)
			step := call.Next(0)
			end := clock.Instant(c.took)
			if c.cancel {
				call.Cancel(end)
			}
			call.Settle(end, step.Ticket, policy.Outcome{Class: c.class})
			if past := s.state.main.cuts() != nil; past != c.past {
				t.Errorf("outlasted: %v", past)
			}
		})
	}
}

// An attempt that nothing can follow is not cut off, so its late answer may be the only sign that others would be.
func TestALateAnswerShowsThatAttemptsWouldBeCutOff(t *testing.T) {
	for _, c := range []struct {
		fact string
		safe bool
		took time.Duration
		open bool
	}{
		{"of a call that is not repeated", true, late, true},
		{"in time", true, quick, false},
		{"of work that may not be repeated: others are other work", false, late, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := rulesOf(t, policy.Policy{Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: time.Second, Last: policy.Off}})
			s := NewState(0, r, Setup{})
			for range 2 {
				var call Call
				call.Begin(s, 0, &Params{Safe: c.safe, NoRetry: true})
				step := call.Next(0)
				call.Settle(clock.Instant(c.took), step.Ticket, policy.Outcome{Class: policy.ClassSuccess})
			}
			if open := s.Stats(clock.Instant(c.took)).Main.Timeout.Basis == terms.TimeoutStretched; open != c.open {
				t.Errorf("attempts have more time: %v", open)
			}
		})
	}
}

// A caller in a hurry, a hedge and the last try have no time beyond their call's.
func TestNoAttemptOutlastsItsCall(t *testing.T) {
	s := newStretching(t, nil)
	s.open(t)
	for _, left := range []time.Duration{2 * time.Second, time.Second, 300 * time.Millisecond} {
		var call Call
		call.Begin(s.state, s.now, &Params{Safe: true, Deadline: s.now.Add(left)})
		step := call.Next(s.now)
		if step.Ticket.Deadline != s.now.Add(left) {
			t.Errorf("with %v left it ends after %v", left, step.Ticket.Deadline.Sub(s.now))
		}
		call.Settle(s.now, step.Ticket, policy.Outcome{Class: policy.ClassSuccess})
	}
}

// Other calls bring more attempts of its work, as the deliveries of a message do.
func TestAnAttemptOfAStrictCallKeepsItsTimeout(t *testing.T) {
	s := newStretching(t, nil)
	s.open(t)
	var call Call
	call.Begin(s.state, s.now, &Params{Safe: true, Strict: true})
	if d, _ := had(t, &call, s.now); d != time.Second {
		t.Errorf("it has %v", d)
	}
}

func TestPartitionsLearnApartWhetherLateAnswersCome(t *testing.T) {
	s := newStretching(t, nil)
	s.open(t)
	var call Call
	call.Begin(s.state, s.now, &Params{Safe: true, Partition: "other"})
	if d, _ := had(t, &call, s.now); d != time.Second {
		t.Errorf("an attempt of another partition has %v", d)
	}
}

func TestEventsAndStatsSayThatAttemptsHaveMoreTime(t *testing.T) {
	s := newStretching(t, nil)
	s.open(t)
	if st := s.state.Stats(s.now).Main.Timeout; st.Attempt != 3*time.Second || st.Basis != terms.TimeoutStretched {
		t.Errorf("Stats say %+v", st)
	}
	var call Call
	var log Log
	call.Begin(s.state, s.now, &Params{Safe: true, Log: &log})
	_, ticket := had(t, &call, s.now)
	call.Settle(ticket.Deadline, *ticket, policy.Outcome{Class: policy.ClassSuccess})
	said := false
	for _, e := range log.Drain() {
		said = said || e.Kind == policy.KindAttemptSent && e.Stretched && e.Until.Sub(e.At) == 3*time.Second
	}
	if !said {
		t.Error("no event says so")
	}
}

// A reading of the clock may be a little old when it is used.
func TestWhatIsKnownOfCutsSurvivesAnOldReading(t *testing.T) {
	s := newStretching(t, nil)
	s.open(t)
	e := known(s.state.main.cuts().word.Load(), s.now.Add(-2*time.Second), &s.state.Rules().Policy.Timeout)
	if !e.open {
		t.Error("it is forgotten")
	}
	if got := unpack(e.pack()); got != e {
		t.Errorf("%+v became %+v", e, got)
	}
}
