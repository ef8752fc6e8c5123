package formulas

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// took are n attempts that took so long.
func took(n int64, d time.Duration) (c Counts) {
	c.Add(d, n)
	return c
}

func TestTimesAreShortenedOnlyFromManySuccessesInHealth(t *testing.T) {
	well := Sample{Took: took(1000, ms), Calls: 8000, Attempts: 8010}
	but := func(change func(*Sample)) Sample { s := well; change(&s); return s }
	for fact, c := range map[string]struct {
		s    Sample
		want string
	}{
		"a thousand successes, all well":   {well, ""},
		"one fewer":                        {but(func(s *Sample) { s.Took = took(999, ms) }), "999 successes: 1,000 are needed to shorten a timeout"},
		"nothing is known":                 {Sample{}, "0 successes: 1,000 are needed to shorten a timeout"},
		"a few failures are always there":  {but(func(s *Sample) { s.Failed = 79 }), ""},
		"one call of a hundred failed":     {but(func(s *Sample) { s.Failed = 80 }), "1 % of the calls failed in that time"},
		"attempts were cut off":            {but(func(s *Sample) { s.Cut = 200 }), "2.5 % of the attempts ran into their timeout in that time"},
		"the calls were rescued by repeat": {but(func(s *Sample) { s.Retries = 810 }), "10.1 % of the attempts were repeats of one that failed in that time"},
		"a breaker opened":                 {but(func(s *Sample) { s.Opened = true }), "a breaker opened in that time"},
		"one was cut off":                  {but(func(s *Sample) { s.Cut = 1 }), "1 of 1001 attempts ended before an answer"},
		"a caller left":                    {but(func(s *Sample) { s.GaveUp = 1 }), "1 of 1001 attempts ended before an answer"},
		"of many, some are no matter":      {but(func(s *Sample) { s.Took, s.Cut = took(7500, ms), 1 }), ""},
		"one took longer than is counted":  {but(func(s *Sample) { s.Took.Add(time.Minute, 1) }), "or took longer than 30s"},
	} {
		if got := KeepTimes(c.s); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", fact, got, c.want)
		}
	}
}

// What is proposed, and why. What attempts need can't be seen where the present timeout cuts off
// what takes longer: then no number comes from it.
func TestWhatIsProposed(t *testing.T) {
	fast := Sample{Took: took(12_000, 20*ms)}
	slow := Sample{Took: took(12_000, 2*s)}
	late := Sample{Took: took(12_000, 20*s)}
	censored := Sample{Took: took(195, 49*ms), Attempts: 200, Cut: 5}
	for fact, c := range map[string]struct {
		timeout policy.Timeout
		s       Sample
		to      time.Duration
		why     string
	}{
		"the default fits":                        {policy.Timeout{}, fast, 0, ""},
		"no gain below half of the call":          {policy.Timeout{Attempt: 11 * s}, fast, 0, ""},
		"far above":                               {policy.Timeout{Attempt: 14 * s}, fast, 7500 * ms, "p99.9 of 12000 attempts is between 10ms and 25ms (95 %), and timeout.attempt is 14s"},
		"far above, with a short call":            {policy.Timeout{Call: 7 * s, Attempt: 7 * s}, fast, 4 * s, "is 7s"},
		"off":                                     {policy.Timeout{Attempt: policy.Off}, fast, 7500 * ms, "timeout.attempt is off"},
		"both are off":                            {policy.Timeout{Call: policy.Off, Attempt: policy.Off}, slow, 7500 * ms, "timeout.attempt is off"},
		"slow":                                    {policy.Timeout{Call: time.Minute, Attempt: 50 * s}, Sample{Took: took(5000, 20*s)}, 0, ""},
		"too few to shorten":                      {policy.Timeout{Attempt: 14 * s}, Sample{Took: took(999, 20*ms)}, 0, ""},
		"not in trouble":                          {policy.Timeout{Attempt: 14 * s}, Sample{Took: took(9999, 20*ms), Opened: true}, 0, ""},
		"measured":                                {policy.Timeout{Attempt: 14 * s, Percentile: 0.999}, fast, 0, ""},
		"shorter than what others took":           {policy.Timeout{Attempt: s}, slow, 5 * s, "p99.9 of 12000 attempts is between 1s and 2.5s (95 %), and timeout.attempt is 1s: it cuts off"},
		"much shorter":                            {policy.Timeout{Attempt: 5 * ms}, fast, 4 * s, "it cuts off"},
		"the call bounds it":                      {policy.Timeout{Attempt: s, Call: 3 * s}, slow, 3 * s, "it cuts off"},
		"the call ends before them":               {policy.Timeout{Attempt: s, Call: 3 * s}, late, 3 * s, "it cuts off"},
		"and they have all of the call":           {policy.Timeout{Attempt: 3 * s, Call: 3 * s}, late, 0, ""},
		"it cuts off what takes longer":           {policy.Timeout{Attempt: 51 * ms}, censored, 4 * s, "5 of 200 attempts ended before an answer, others were answered shortly before that, and timeout.attempt is 51ms"},
		"and the call has less for each":          {policy.Timeout{Attempt: 51 * ms, Call: 600 * ms}, censored, 200 * ms, "can't be seen"},
		"and the call has no more":                {policy.Timeout{Attempt: 51 * ms, Call: 150 * ms}, censored, 0, ""},
		"what hangs is no reason for more":        {policy.Timeout{Attempt: s}, censored, 0, ""},
		"too few to lengthen":                     {policy.Timeout{Attempt: 51 * ms}, Sample{Took: took(94, 49*ms), Cut: 5}, 0, ""},
		"one of many cut off is what p99.9 means": {policy.Timeout{Attempt: 51 * ms}, Sample{Took: took(4000, 49*ms), Cut: 1}, 0, ""},
	} {
		p := policy.Policy{Timeout: c.timeout}
		to, why := ProposeAttempt(p, c.s)
		if to != c.to || !strings.Contains(why, c.why) || (why == "") != (to == 0) {
			t.Errorf("%s: %v: %s\nwant %v: %s", fact, to, why, c.to, c.why)
		}
		if to == 0 {
			continue
		}
		if p.Timeout.Attempt = to; p.Validate() != nil {
			t.Errorf("%s: %v", fact, p.Validate())
		}
		if again, why := ProposeAttempt(p, c.s); again != 0 {
			t.Errorf("%s: then %v is proposed: %s", fact, again, why)
		}
	}
}

// The ranks are those that the binomial distribution gives, as tables of distribution-free
// intervals have them.
func TestRanksOfTheInterval(t *testing.T) {
	for _, c := range []struct {
		n           int64
		q           float64
		most, least int64
	}{
		{100, 0.5, 60, 39}, // ranks 40 and 61
		{1000, 0.99, 17, 3},
		{1000, 0.999, 3, -1},
		{3687, 0.999, 8, -1},
		{3688, 0.999, 8, 0}, // 0.999^3688 < 2.5 %
		{0, 0.99, 0, -1},
	} {
		if most, least := above(c.n, 1-c.q); most != c.most || least != c.least {
			t.Errorf("p%v of %d: at most %d and at least %d above, want %d and %d", 100*c.q, c.n, most, least, c.most, c.least)
		}
	}
	if most, least := above(1<<50, 0.001); math.Abs(float64(most)/(1<<50)-0.001) > 3e-5 || least >= most {
		t.Error(most, least)
	}
}

// In 95 of 100 samples or more the interval holds the true quantile.
func TestTheIntervalHoldsTheQuantile(t *testing.T) {
	random := rand.New(rand.NewPCG(28, 1))
	for _, q := range []float64{0.5, 0.99, 0.999} {
		for _, n := range []int{500, 5000} {
			missed := 0
			for range 400 {
				var c Counts
				for range n {
					c.Add(time.Duration(math.Exp(2*random.NormFloat64())*float64(30*ms)), 1)
				}
				z := math.Sqrt2 * math.Erfinv(2*q-1)
				truth := time.Duration(math.Exp(2*z) * float64(30*ms))
				if low, high := c.Between(q, 0); truth <= low || truth > high {
					missed++
				}
			}
			if missed > 20 {
				t.Errorf("p%v of %d: outside of %d of 400 intervals", 100*q, n, missed)
			}
		}
	}
}

func TestCountsOfTimes(t *testing.T) {
	var c Counts
	if c.Quantile(0.5) != 0 || c.Longest() != 100*time.Microsecond || c.Count() != 0 {
		t.Error(c.Quantile(0.5), c.Longest())
	}
	c.Add(100*ms, 1) // the bound belongs to the bucket
	c.Add(101*ms, 1)
	if got := c.Quantile(0.5); got != 100*ms || c.Longest() != 250*ms {
		t.Error(got, c.Longest())
	}
	c.Add(time.Hour, 98)
	if got := c.Quantile(0.99); got != 30*s {
		t.Error(got)
	}
	c.Put(0, math.MaxInt64)
	c.Put(0, math.MaxInt64)
	c.Put(1, -5)
	if n := c.Count(); n != 1<<50+100 {
		t.Error(n)
	}
	if low, high := c.Between(0.6, math.MaxInt64); low != Unbounded || high != Unbounded {
		t.Error(low, high)
	}
	if !slices.IsSorted(Bounds[:]) {
		t.Error("the bounds are not in order")
	}
}
