package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

func TestAKeyIsSetAsAFileSetsIt(t *testing.T) {
	on := policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true, Window: time.Minute}}
	for _, c := range []struct {
		path, value string
		of, want    policy.Policy
	}{
		{"breaker.open", "1m30s", policy.Policy{}, policy.Policy{Breaker: policy.Breaker{Open: 90 * time.Second}}},
		{"breaker.open", "2s", on, policy.Policy{Safe: true, Breaker: policy.Breaker{Window: time.Minute, Open: 2 * time.Second}}},
		{"breaker", "off", policy.Policy{}, policy.Policy{Breaker: policy.Breaker{Off: true}}},
		{"retry", "off", policy.Policy{}, policy.Policy{Retry: policy.Retry{Attempts: 1}}},
		{"retry.budget.ratio", "10%", policy.Policy{}, policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Ratio: 0.1}}}},
		{"retry.attempts", "4", policy.Policy{}, policy.Policy{Retry: policy.Retry{Attempts: 4}}},
		{"safe", "true", policy.Policy{}, policy.Policy{Safe: true}},
		{"timeout.attempt", "off", policy.Policy{}, policy.Policy{Timeout: policy.Timeout{Attempt: policy.Off}}},
		{"breaker.per", "call", policy.Policy{}, policy.Policy{Breaker: policy.Breaker{Per: policy.PerCall}}},
	} {
		if got, err := setKey(c.of, c.path, c.value); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s=%s: %+v, %v", c.path, c.value, got, err)
		}
	}
}

func TestWhatCannotBeSetSaysWhatCan(t *testing.T) {
	for _, c := range []struct{ path, value, want string }{
		{"breaker.opn", "1s", "did you mean breaker.open?"},
		{"braker.open", "1s", "did you mean breaker.open?"},
		{"open", "1s", "did you mean breaker.open?"},
		{"ratio", "1s", "did you mean retry.budget.ratio?"},
		{"breaker.colour", "1s", "there are breaker.observe, breaker.per,"},
		{"colour", "1s", "there are trust, "},
		{"", "1s", "there is no such key"},
		{"breaker.open", "5", `"5" has no unit`},
		{"breaker.open", "soon", "breaker.open=soon: "},
		{"breaker.failure_rate", "0.5", "write 50%"},
		{"breaker", "5s", "wants keys"},
		{"breaker.open", "${HOME}", "HOME"},
		{"breaker.open", "5s'}, safe: true, x: {y: '", "breaker.open="},
		{"breaker.open", "5s\nsafe: true", "breaker.open="},
		{"breaker.per", "cal", "did you mean call?"},
	} {
		_, err := setKey(policy.Policy{}, c.path, c.value)
		var as *policyfile.SetError
		if !errors.As(err, &as) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: got %v, want %s", c.path, c.value, err, c.want)
		}
	}
}

// Whatever Explain shows can be set to what it shows.
func TestEveryKeyCanBeSet(t *testing.T) {
	f := &File{Policies: map[string]policy.Policy{"x": {RateLimit: policy.RateLimit{Rate: 5}, Hedge: policy.Hedge{Max: 1}}}}
	keys, n := allKeys(), 0
	for _, s := range f.Explain("x") {
		if s.Value == unwritten[s.Path] || strings.HasPrefix(s.Value, "[") {
			continue
		}
		n++
		if _, err := setKey(policy.Policy{}, s.Path, s.Value); err != nil {
			t.Errorf("%s: %v", s.Path, err)
		}
		if !slices.Contains(keys, s.Path) {
			t.Errorf("%s is no key", s.Path)
		}
	}
	if n < 30 {
		t.Errorf("%d settings were tried", n)
	}
}

func TestStepsOfARange(t *testing.T) {
	for _, c := range []struct {
		path, from, to string
		n              int
		by             policyfile.Spacing
		want           string
	}{
		{"breaker.open", "1s", "30s", 6, policyfile.SpacingOfRange, "1s 2s 3.9s 7.7s 15s 30s"},
		{"breaker.open", "1s", "11s", 6, policyfile.SpacingLinear, "1s 3s 5s 7s 9s 11s"},
		{"retry.attempts", "1", "4", 10, policyfile.SpacingOfRange, "1 2 3 4"},
		{"breaker.failure_rate", "50%", "95%", 4, policyfile.SpacingOfRange, "50% 65% 80% 95%"},
		{"retry.budget.ratio", "5%", "80%", 5, policyfile.SpacingLog, "5% 10% 20% 40% 80%"},
		{"rate_limit.rate", "10/s", "1000/s", 3, policyfile.SpacingOfRange, "10/s 100/s 1000/s"},
		{"breaker.open_growth", "1.5", "3", 3, policyfile.SpacingOfRange, "1.5 2.2 3"},
		{"timeout.attempt", "100ms", "1s", 3, policyfile.SpacingLinear, "100ms 550ms 1s"},
	} {
		got, err := steps(c.path, c.from, c.to, c.n, c.by)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s from %s to %s: %q, %v, want %s", c.path, c.from, c.to, got, err, c.want)
		}
		for _, value := range got {
			if _, err := setKey(policy.Policy{}, c.path, value); err != nil {
				t.Error(err)
			}
		}
	}
	for _, c := range []struct {
		path, from, to string
		n              int
		want           string
	}{
		{"breaker.open", "30s", "1s", 5, "does not rise"},
		{"breaker.open", "1s", "off", 5, "no end of a range"},
		{"breaker.per", "call", "attempt", 5, "no end of a range"},
		{"breaker", "off", "off", 5, "no end of a range"},
		{"breaker.opn", "1s", "2s", 5, "did you mean breaker.open?"},
		{"breaker.open", "1s", "2", 5, "no unit"},
		{"breaker.open", "1s", "2s", 1, "1 steps"},
		{"breaker.open", "1s", "2s", 101, "101 steps"},
	} {
		if got, err := steps(c.path, c.from, c.to, c.n, policyfile.SpacingLinear); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s from %s to %s: %q, %v, want %s", c.path, c.from, c.to, got, err, c.want)
		}
	}
}

// Whatever is written, one key is set, or nothing and an error says why.
func FuzzSet(f *testing.F) {
	for _, seed := range [][2]string{{"breaker.open", "1s"}, {"retry", "off"}, {"breaker.open", "1s}, safe: true, x: {y: '"}, {"timeout.call", "${X}"}, {"classify.http.ignore", "[404]"}, {"a.b", "\n"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, path, value string) {
		before := policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Minute}}
		got, err := setKey(before, path, value)
		var as *policyfile.SetError
		switch {
		case err != nil && !errors.As(err, &as):
			t.Fatalf("%s=%s: %v", path, value, err)
		case err != nil:
			return
		}
		if path != "safe" && !got.Safe || !strings.HasPrefix(path, "timeout") && got.Timeout != before.Timeout {
			t.Errorf("%s=%s sets something else: %+v", path, value, got)
		}
	})
}
