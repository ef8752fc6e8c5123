package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// What has no effect is a mistake of who wrote it for this dependency, and not of the
// defaults, which are for those that can use them.
func TestSettingsWithoutEffect(t *testing.T) {
	const defaults = "version: 1\ndefaults: {hedge: {delay: 50ms}, breaker: {window: 30s}, rate_limit: {burst: 5}}\ndependencies:\n"
	for _, c := range []struct{ fact, text, finding string }{
		{"defaults that one can't use are none of its mistakes", defaults + "  a: {}\n  b: {hedge: {max: 1}, breaker: {window_calls: 100}}", ""},
		{"nor where it switches them off", defaults + "  a: {hedge: off, rate_limit: off}", ""},
		{"its own are", "version: 1\ndependencies:\n  a: {hedge: {delay: 50ms}}",
			"3:22: a: hedge.delay: 50ms has no effect without hedge.max"},
		{"also beside a default", defaults + "  a: {rate_limit: {max_wait: 1s}}", "4:30: a: rate_limit.max_wait: 1s has no effect without rate_limit.rate"},
		{"a variable is not shown", "version: 1\ndependencies:\n  a: {hedge: {delay: \"${PATH_:-50ms}\"}}", "a: hedge.delay: ${PATH_:-50ms} has no effect without hedge.max"},
		{"what can't be read hides what follows from it", "version: 1\ndependencies:\n  a: {hedge: {delay: 50ms, max: many}}", "hedge.max: \"many\" is not a whole number"},
	} {
		f, err := Parse("f", []byte(c.text))
		switch {
		case c.finding == "" && err == nil:
			for name, p := range f.Policies {
				if err := p.Validate(); err != nil {
					t.Errorf("%s: the policy of %s is refused: %v", c.fact, name, err)
				}
			}
		case c.finding == "" || err == nil || !strings.Contains(err.Error(), c.finding) || len(err.(Findings)) != 1:
			t.Errorf("%s: got %v, want %q", c.fact, err, c.finding)
		}
	}
	f, _ := Parse("f", []byte(defaults+"  a: {}\n  b: {hedge: {max: 1}}"))
	for _, s := range append(f.Explain("a"), f.Explain("b")...) {
		if s.Path == "hedge.delay" && s.Value+" "+s.Source != "none default" && s.Value+" "+s.Source != "50ms f:2 (defaults)" {
			t.Errorf("hedge.delay is explained as %s from %s", s.Value, s.Source)
		}
	}
}

// A part that one layer switches off is on again where the next says something of it.
func TestEveryPartCanBeOff(t *testing.T) {
	for _, part := range []string{"hedge", "throttle", "rate_limit", "pace", "breaker", "bulkhead"} {
		f, err := Parse("f", []byte("version: 1\ndefaults: {hedge: {max: 1}, throttle: {k: 2}, rate_limit: {rate: 5/s}}\ndependencies: {a: {"+part+": off}}"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, s := range f.Explain("a") {
			found = found || s.Path == part && s.Value == "off" && s.Source == "f:3"
			if strings.HasPrefix(s.Path, part+".") {
				t.Errorf("%s: off explains %s as well", part, s.Path)
			}
		}
		again, err := Parse("f", []byte(view{f}.YAML(false)))
		if !found || err != nil {
			t.Fatalf("%s: off is explained: %v; read again: %v", part, found, err)
		}
		got, want := again.Policies["a"].Resolved(), f.Policies["a"].Resolved()
		got.HTTP, want.HTTP = policy.HTTP{}, policy.HTTP{}
		got.GRPC, want.GRPC = policy.GRPC{}, policy.GRPC{}
		got.Prices, want.Prices = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: off, printed and read again:\n%+v\n%+v", part, got, want)
		}
	}
}

// A key that has moved says where it is.
func TestPartitionsHaveMoved(t *testing.T) {
	_, err := Parse("f", []byte("version: 1\ndependencies: {a: {breaker: {partitions: 5, partition_idle: 1m}}}"))
	for _, want := range []string{"it is partitions.max now", "it is partitions.idle now"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f, err := Parse("f", []byte("version: 1\ndependencies: {a: {partitions: {max: 5, idle: 1m}}}"))
	if err != nil || f.Policies["a"].Partitions != (policy.Partitions{Max: 5, Idle: time.Minute}) {
		t.Errorf("%v", err)
	}
}
