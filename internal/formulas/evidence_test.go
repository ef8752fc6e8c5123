package formulas

import "testing"

func TestTimesAreShortenedOnlyFromManySuccessesInHealth(t *testing.T) {
	well := Sample{Successes: 1000, Calls: 8000, Attempts: 8010}
	but := func(change func(*Sample)) Sample { s := well; change(&s); return s }
	for fact, c := range map[string]struct {
		s    Sample
		want string
	}{
		"a thousand successes, all well":   {well, ""},
		"one fewer":                        {but(func(s *Sample) { s.Successes = 999 }), "999 successes: 1,000 are needed to shorten a timeout"},
		"nothing is known":                 {Sample{}, "0 successes: 1,000 are needed to shorten a timeout"},
		"a few failures are always there":  {but(func(s *Sample) { s.Failed = 79 }), ""},
		"one call of a hundred failed":     {but(func(s *Sample) { s.Failed = 80 }), "1 % of the calls failed in that time"},
		"attempts were cut off":            {but(func(s *Sample) { s.Cut = 200 }), "2.5 % of the attempts ran into their timeout in that time"},
		"the calls were rescued by repeat": {but(func(s *Sample) { s.Retries = 810 }), "10.1 % of the attempts were repeats of one that failed in that time"},
		"a breaker opened":                 {but(func(s *Sample) { s.Opened = true }), "a breaker opened in that time"},
	} {
		if got := KeepTimes(c.s); got != c.want {
			t.Errorf("%s: %q, want %q", fact, got, c.want)
		}
	}
}
