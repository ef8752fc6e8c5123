package behaviour_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// Quotas of each endpoint lead no attempt to one that is shut by hand while another is there, and let no call wait for it.
func TestQuotasLeadToNoEndpointThatIsShutByHand(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails bool // the other endpoint
		late  bool // it is shut while the call waits for room there
		bound bool // the call names it
		limit time.Duration
		ends  policy.Reason
		waits bool // for room
		goes  string
	}{
		{"the other one works, and has room in time", false, false, false, time.Minute, policy.None, true, "b"},
		{"the other one works, and has no room in time", false, false, false, time.Second, policy.RateLimited, false, ""},
		{"the other one fails, and has room later", true, false, false, time.Minute, policy.None, true, "b"},
		{"it is shut while a call waits for room there", true, true, false, time.Minute, policy.None, true, "b"},
		{"a call that names it does not wait", false, false, true, time.Minute, policy.BreakerOpen, false, ""},
		{"a call that names it, and has little time, is not refused for the room", false, false, true, time.Second, policy.BreakerOpen, false, ""},
		{"a call that names it ends with its wait", false, true, true, time.Minute, policy.BreakerOpen, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := ways(policy.EndpointsOrdered, "a", "b")
				p.Safe, p.Timeout.Call, p.Timeout.Attempt, p.Retry.Attempts = true, tt.limit, time.Second, 1
				p.Endpoints.Standing, p.Breaker = policy.Off, policy.Breaker{Consecutive: policy.Off, FailureRate: policy.Off}
				p.RateLimit.Quotas = []policy.Quota{{Unit: "requests", Amount: 5, Span: time.Minute, Each: true}}
				d := gabion.New("model", p)
				use := func(name string, err error) {
					for range 5 { // all that it has
						if got := d.Run(t.Context(), func(context.Context) error { return err }, gabion.WithEndpoint(name)); (got == nil) != (err == nil) {
							t.Fatal(got)
						}
					}
				}
				use("a", nil)
				time.Sleep(time.Second)
				use("b", map[bool]error{true: classify.Transient(errDown)}[tt.fails])
				a, _ := d.Breaker("a")
				if !tt.late {
					a.ForceOpen(time.Hour)
				} else {
					time.AfterFunc(2*time.Second, func() { a.ForceOpen(time.Hour) })
				}
				var opts []gabion.CallOption
				if tt.bound {
					opts = append(opts, gabion.WithEndpoint("a"))
				}
				var s seen
				began := time.Now()
				err := d.Run(t.Context(), func(ctx context.Context) error { s.add(ctx); return nil }, opts...)
				took := time.Since(began)
				if n := s.count(); gabion.ReasonOf(err) != tt.ends || n["a"] != 0 || tt.goes != "" && n[tt.goes] != 1 || (took > 0) != tt.waits {
					t.Errorf("after %v at %v: %v", took, n, err)
				}
			})
		})
	}
}
