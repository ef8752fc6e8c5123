package policy

import (
	"testing"
	"time"
)

func TestConstructorsSayWhetherTheWorkMayHaveHappened(t *testing.T) {
	for fact, c := range map[string]struct{ got, want Outcome }{
		"a success says no more":           {Succeeded(), Outcome{Class: ClassSuccess}},
		"what failed may have happened":    {Failed(ClassServer), Outcome{Class: ClassServer, Effect: UnknownEffect}},
		"what was refused is undone":       {Refused(ClassThrottled), Outcome{Class: ClassThrottled, Undone: true}},
		"what was not sent is never sent":  {Unsent(ClassNetwork), Outcome{Class: ClassNetwork, NeverSent: true}},
		"a time to come back is said so":   {Failed(ClassServer).ComeBack(time.Second), Outcome{Class: ClassServer, Effect: UnknownEffect, HasAfter: true, After: time.Second}},
		"one in the past is now":           {Outcome{}.ComeBack(-1), Outcome{HasAfter: true}},
		"a code leaves the rest as it was": {Refused(ClassThrottled).WithCode("429"), Outcome{Class: ClassThrottled, Undone: true, Code: "429"}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", fact, c.got, c.want)
		}
	}
}
