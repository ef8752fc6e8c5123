package gabionprom

import (
	"testing"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/policy"
)

func TestEnumerationsFit(t *testing.T) {
	if n := len(policy.Reasons()); n > numReasons {
		t.Errorf("%d reasons do not fit", n)
	}
	if policy.Class(numClasses).String() != "class(unknown)" || policy.BreakerState(numStates).String() != "state(unknown)" {
		t.Error("there are more classes or states than fit")
	}
	if policy.BreakerState(numStates-1).String() == "state(unknown)" {
		t.Error("there are fewer states")
	}
}

func TestUnknownValuesDoNotCrash(t *testing.T) {
	m := New(Config{})
	for k := range 256 {
		e := policy.Event{Kind: policy.Kind(k), Dependency: "d", Reason: 255, Class: 255, From: 255, To: 255, Cause: 255, Attempt: 255, Hedges: 255, Took: -1, Left: -1, Count: -1}
		m.Observe(t.Context(), e)
	}
	if n := m.dependency("d").operation(m, "").calls[policy.UnclassifiedError].Load(); n != 1 {
		t.Errorf("a call that ended for a reason of a later version counts %d times", n)
	}
}

func TestEveryMetricHasADescription(t *testing.T) {
	names := map[string]bool{}
	for _, m := range catalog.All() {
		if names[m.Name] || m.Help == "" || descs[m] == nil || len(m.Labels) > maxLabels {
			t.Errorf("%s: twice, without help, or without a description", m.Name)
		}
		names[m.Name] = true
	}
}
