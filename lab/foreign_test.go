package lab

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

// What the file says of timeouts holds, and the rest of them is the scenario's.
func TestAnotherSystemInPlaceOfAPolicy(t *testing.T) {
	scenarios := policy.Policy{
		Trust: policy.Internal, Key: policy.KeyMade,
		Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: time.Second, Idle: 2 * time.Second},
	}
	for name, c := range map[string]struct{ theirs, want policy.Timeout }{
		"nothing said":                      {policy.Timeout{}, policy.Timeout{Call: 3 * time.Second, Attempt: time.Second, Last: time.Second, Idle: 2 * time.Second}},
		"the call":                          {policy.Timeout{Call: 500 * time.Millisecond}, policy.Timeout{Call: 500 * time.Millisecond, Attempt: 500 * time.Millisecond, Last: 500 * time.Millisecond, Idle: 2 * time.Second}},
		"an attempt of any length":          {policy.Timeout{Attempt: policy.Off}, policy.Timeout{Call: 3 * time.Second, Attempt: policy.Off, Last: policy.Off, Idle: 2 * time.Second}},
		"an attempt longer than the call's": {policy.Timeout{Attempt: time.Minute}, policy.Timeout{Call: 3 * time.Second, Attempt: 3 * time.Second, Last: 3 * time.Second, Idle: 2 * time.Second}},
	} {
		c.want.Strict, c.want.Margin = true, policy.Off
		got := foreign.InPlace(policy.Policy{Safe: true, Timeout: c.theirs, Breaker: policy.Breaker{SlowCall: time.Second, SlowRate: 0.5, Window: time.Second}}, scenarios)
		if got.Timeout != c.want {
			t.Errorf("%s: %+v, want %+v", name, got.Timeout, c.want)
		}
		if !got.Safe || got.Trust != policy.Internal || got.Key != policy.KeyMade {
			t.Errorf("%s: %+v", name, got)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSidesThatCannotBe(t *testing.T) {
	f := &Foreign{Name: "istio vs.yaml", Policies: map[string]policy.Policy{"a": {}, "b": {}}}
	for want, o := range map[string]Options{
		"Config and Theirs are for the same side": {Config: emptyFile(t), Theirs: f},
		"Against and AgainstTheirs are for the":   {Against: emptyFile(t), AgainstTheirs: f},
		"* is all policies of the scenario":       {Theirs: f, As: map[string]string{"*": "a", "db": "b"}},
		"AgainstAs names dependencies":            {AgainstAs: map[string]string{"*": "a"}},
	} {
		if _, err := o.options(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func emptyFile(t *testing.T) *config.File {
	t.Helper()
	f, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
