package config

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// attempt: p99.9 is a percentile, and leaves the upper bound alone.
func TestAnAttemptMayBeWrittenAsAPercentile(t *testing.T) {
	for text, want := range map[string]policy.Timeout{
		"{attempt: p99.9}":    {Percentile: 0.999},
		"{attempt: p99}":      {Percentile: 0.99},
		"{percentile: 99.9%}": {Percentile: 0.999},
		"{attempt: 2s, percentile: 99.9%, attempt_min: 80ms}": {Attempt: 2 * time.Second, Percentile: 0.999, AttemptMin: 80 * time.Millisecond},
		"{attempt: p99.9, attempt_min: 80ms, call: 5s}":       {Call: 5 * time.Second, Percentile: 0.999, AttemptMin: 80 * time.Millisecond},
		"{attempt: '${P:-p99.9}'}":                            {Percentile: 0.999},
		"{attempt: 2s, percentile: off}":                      {Attempt: 2 * time.Second, Percentile: policy.Off},
	} {
		f := parse(t, "version: 1\ndependencies:\n  a: {timeout: "+text+"}\n")
		if got := f.Policies["a"].Timeout; got != want {
			t.Errorf("%s is %+v, want %+v", text, got, want)
		}
	}
}

// The upper bound of a lower layer stays, and so does its percentile.
func TestAPercentileIsLaidOverABound(t *testing.T) {
	f := parse(t, `version: 1
defaults: {timeout: {attempt: 2s}}
dependencies:
  a: {timeout: {attempt: p99.9}}
  b: {preset: internal-rpc, timeout: {attempt: p99}}
`)
	if got := f.Policies["a"].Timeout; got.Attempt != 2*time.Second || got.Percentile != 0.999 {
		t.Errorf("%+v", got)
	}
	if got := f.Policies["b"].Timeout; got.Attempt != time.Second || got.Percentile != 0.99 {
		t.Errorf("%+v", got)
	}
	for _, s := range f.Explain("a") {
		if want := map[string]string{
			"timeout.attempt": "2s gabion.yaml:2 (defaults)", "timeout.percentile": "99.9% gabion.yaml:4", "timeout.attempt_min": "50ms default",
		}[s.Path]; want != "" && s.Value+" "+s.Source != want {
			t.Errorf("%s is %s %s, want %s", s.Path, s.Value, s.Source, want)
		}
	}
	again := parse(t, (view{f}).YAML(false))
	for name, p := range f.Policies {
		if got := again.Policies[name].Resolved().Timeout; got != p.Resolved().Timeout {
			t.Errorf("%s is %+v when it is read again, it was %+v\n%s", name, got, p.Resolved().Timeout, (view{f}).YAML(false))
		}
	}
}

func TestAPercentileThatIsNoneIsAMistake(t *testing.T) {
	for text, want := range map[string]string{
		"{attempt: p101}":                   "timeout.percentile: 101% is too large",
		"{attempt: p50}":                    "timeout.percentile: 50% would cut off 50% of the attempts that succeed",
		"{attempt: pfast}":                  `timeout.percentile: "pfast" is not a percentile`,
		"{attempt: p99.9, percentile: 99%}": "timeout.percentile is there twice",
		"{percentile: 99%, attempt: p99.9}": "timeout.percentile is there twice",
		"{percentile: p99.9}":               `timeout.percentile: "p99.9" is not a percentage`,
		"{attempt_min: 80ms}":               "timeout.attempt_min: 80ms has no effect without timeout.percentile",
		"{attempt: off, percentile: 99.9%}": "timeout.percentile: 99.9% with timeout.attempt: off has no upper bound",
	} {
		_, err := Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  a: {timeout: "+text+"}\n"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "gabion.yaml:") != 1 {
			t.Errorf("%s says %v, want %s", text, err, want)
		}
	}
}

func TestAPercentileCanBeSet(t *testing.T) {
	p, err := setKey(policy.Policy{Timeout: policy.Timeout{Attempt: time.Second}}, "timeout.attempt", "p99.9")
	if err != nil || p.Timeout != (policy.Timeout{Attempt: time.Second, Percentile: 0.999}) {
		t.Errorf("%+v, %v", p.Timeout, err)
	}
}
