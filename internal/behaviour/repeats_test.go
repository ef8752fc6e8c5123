package behaviour

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

// A metric of retries by status has to know, when a retry is sent, which failure it repeats.
func TestARetrySaysWhichFailureItRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcomes := []policy.Outcome{{Class: policy.ClassServer, Code: "503"}, {Class: policy.ClassNetwork}, {Class: policy.ClassSuccess}}
		var sent []string
		watch := gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			if e.Kind == policy.KindAttemptSent {
				sent = append(sent, fmt.Sprintf("%d %v %q", e.Attempt, e.Class, e.Code))
			}
		})
		p := policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 3, Backoff: backoff.Const(time.Millisecond)}}
		d := gabion.New("db", p, gabion.WithObserver(watch), gabion.WithClassify(func(any, error) policy.Outcome {
			if len(outcomes) == 0 {
				return policy.Succeeded()
			}
			o := outcomes[0]
			outcomes = outcomes[1:]
			return o
		}))
		first := outcomes
		outcomes = nil
		for range 20 { // they earn the retries
			d.Run(t.Context(), works)
		}
		outcomes, sent = first, nil
		d.Run(t.Context(), fails(errDown))
		if want := []string{`1 undecided ""`, `2 server "503"`, `3 network ""`}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
	})
}
