package config

import (
	"strings"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

func TestALearnedLimitInAFile(t *testing.T) {
	const file = "version: 1\ndependencies:\n  a: {bulkhead: {limit: learned, max: 200}}\n  b: {bulkhead: {limit: 10}}\n"
	f, err := Parse("gabion.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Policies["a"].Bulkhead, (policy.Bulkhead{Limit: policy.Learned, Max: 200}); got != want {
		t.Errorf("reads as %+v, want %+v", got, want)
	}
	text := (view{f}).YAML(false)
	for _, want := range []string{"limit: learned\n      min: 1\n      max: 200\n      queue_timeout", "limit: 10\n      queue: 20\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("prints as\n%s", text)
		}
	}
	again, err := Parse("again", []byte(text))
	if err != nil || again.Policies["a"].Resolved().Bulkhead != f.Policies["a"].Resolved().Bulkhead {
		t.Errorf("printed and read again: %+v, %v", again.Policies["a"].Bulkhead, err)
	}
	for _, s := range f.Explain("a") {
		if s.Path == "bulkhead.queue" && s.Value != "twice the limit" {
			t.Errorf("the queue is %q", s.Value)
		}
	}
	for _, wrong := range []string{"bulkhead: {queue: learned}", "bulkhead: {limit: learnt}", "retry: {attempts: learned}"} {
		if _, err := Parse("f", []byte("version: 1\ndependencies: {a: {"+wrong+"}}\n")); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
	for wrong, want := range map[string]string{"learnt": "did you mean learned?", "Learned": "did you mean learned?", "many": "write digits only"} {
		if _, err := Parse("f", []byte("version: 1\ndependencies: {a: {bulkhead: {limit: "+wrong+"}}}\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("limit: %s says %v, want %s", wrong, err, want)
		}
	}
	if p, err := setKey(policy.Policy{}, "bulkhead.limit", "learned"); err != nil || p.Bulkhead.Limit != policy.Learned {
		t.Errorf("set to learned, it is %d: %v", p.Bulkhead.Limit, err)
	}
}
