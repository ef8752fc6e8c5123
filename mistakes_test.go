package gabion_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

func TestABackoffOfZeroDoesNotWait(t *testing.T) {
	for fact, c := range map[string]struct {
		backoff backoff.Backoff
		waits   bool
	}{
		"the zero Backoff is the default": {backoff.Backoff{}, true},
		"Const(0) never waits":            {backoff.Const(0), false},
		"a base that is off neither":      {backoff.Backoff{Base: policy.Off}, false},
	} {
		t.Run(fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := policy.Policy{Safe: true, Retry: policy.Retry{Backoff: c.backoff, Hold: policy.Off, Budget: free}}
				d, n := gabion.New("db", p, gabion.WithSeed(1)), 0
				begin := time.Now()
				d.Run(t.Context(), func(context.Context) error { n++; return errDown })
				if waited := time.Since(begin); n != 3 || waited > 0 != c.waits {
					t.Errorf("%d attempts in %v", n, waited)
				}
			})
		})
	}
}
