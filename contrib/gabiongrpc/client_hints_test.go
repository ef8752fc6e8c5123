package gabiongrpc_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

func TestWhatAServerSaysOfWhenToTryAgain(t *testing.T) {
	exponential := with(plain(), func(p *policy.Policy) {
		p.Retry.Attempts, p.Retry.Backoff = 4, backoff.Backoff{Kind: backoff.Exponential, Base: 100 * ms, Cap: time.Minute}
	})
	jittered := with(plain(), func(p *policy.Policy) { p.Retry.Backoff.Kind = backoff.FullJitter })
	down := fails(codes.Unavailable)
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		says   []answer
		came   []time.Duration
		why    gabion.Reason
	}{
		{"C73 pushback is waited for exactly, and then the backoff begins anew", exponential,
			[]answer{down, down.push("1000"), down, ok("")}, []time.Duration{0, 100 * ms, 1100 * ms, 1200 * ms}, policy.None},
		{"C73 whatever the jitter", jittered, []answer{down.push("1000"), ok("")}, []time.Duration{0, time.Second}, policy.None},
		{"C73 pushback of nothing is at once", jittered, []answer{down.push("0"), ok("")}, []time.Duration{0, 0}, policy.None},
		{"C73 negative pushback ends it", plain(), []answer{down.push("-1"), ok("")}, []time.Duration{0}, policy.DoNotRetry},
		{"C73 so does garbage", plain(), []answer{down.push("abc"), ok("")}, []time.Duration{0}, policy.DoNotRetry},
		{"C73 and a number that none can hold", plain(), []answer{down.push("99999999999999999999"), ok("")}, []time.Duration{0}, policy.DoNotRetry},
		{"C73 when attempts are used up it is not waited for", with(plain(), func(p *policy.Policy) { p.Retry.Attempts = 1 }),
			[]answer{down.push("1000")}, []time.Duration{0}, policy.AttemptsExhausted},
		{"pushback that is longer than the policy allows ends it", with(plain(), func(p *policy.Policy) { p.Retry.MaxAfter = time.Second }),
			[]answer{down.push("1001")}, []time.Duration{0}, policy.RetryAfterTooLong},
		{"pushback beyond the deadline ends it", plain(), []answer{down.push("14990")}, []time.Duration{0}, policy.RetryAfterTooLong},
		{"pushback makes no permanent code transient", plain(), []answer{fails(codes.NotFound).push("5"), ok("")}, []time.Duration{0}, policy.NotRetryable},
		{"a quota with RetryInfo is a throttle", with(plain(), func(p *policy.Policy) { p.Pace.Off = true }),
			[]answer{fails(codes.ResourceExhausted).retryIn(2 * time.Second).push("2000"), ok("")}, []time.Duration{0, 2 * time.Second}, policy.None},
		{"unless the policy calls it permanent", with(plain(), func(p *policy.Policy) { p.GRPC.Permanent = []policy.GRPCCode{grpccode.ResourceExhausted} }),
			[]answer{fails(codes.ResourceExhausted).retryIn(2 * time.Second), ok("")}, []time.Duration{0}, policy.NotRetryable},
		{"a quota that the policy lists is retried", with(plain(), func(p *policy.Policy) {
			p.GRPC.Transient, p.Pace.Off = []policy.GRPCCode{grpccode.ResourceExhausted}, true
		}), []answer{fails(codes.ResourceExhausted), ok("")}, []time.Duration{0, 100 * ms}, policy.None},
		{"a conflict is repeated soon", with(plain(), func(p *policy.Policy) {
			p.Retry.Contention.Backoff = backoff.Backoff{Kind: backoff.Constant, Base: 5 * ms, Cap: 5 * ms}
		}), []answer{fails(codes.Aborted), ok("")}, []time.Duration{0, 5 * ms}, policy.None},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, c.policy, func(r *room) {
				r.answers(c.says...)
				_, err := r.call(safely())
				r.wantAt(c.came...)
				if gabion.ReasonOf(err) != c.why {
					t.Error(err)
				}
			})
		})
	}
}

func TestRetryInfoIsNeverCutShort(t *testing.T) {
	inRoom(t, plain(), func(r *room) {
		r.answers(fails(codes.Unavailable).retryIn(2*time.Second), ok(""))
		if _, err := r.call(safely()); err != nil {
			t.Fatal(err)
		}
		if got := r.seen()[1].at; got < 2*time.Second || got > 2400*ms {
			t.Errorf("the retry came at %v", got)
		}
	})
	inRoom(t, plain(), func(r *room) {
		r.answers(fails(codes.Unavailable).retryIn(30 * time.Second))
		_, err := r.call(safely())
		if e, _ := errors.AsType[*gabion.Error](err); e == nil || e.Reason != policy.RetryAfterTooLong || e.RetryAfter != 30*time.Second {
			t.Error(err)
		}
	})
}

func TestRetryInfoHoldsTheDependencyBackAndPushbackOneCall(t *testing.T) {
	for _, c := range []struct {
		fact string
		says answer
		wait bool
	}{
		{"RetryInfo", fails(codes.Unavailable).retryIn(time.Second), true},
		{"pushback", fails(codes.Unavailable).push("1000"), false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, plain(), func(r *room) {
				r.answers(c.says, ok(""))
				_, _ = r.call()
				start := time.Now()
				if _, err := r.call(); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(start) > 0; waited != c.wait {
					t.Errorf("the next call waited: %v", waited)
				}
			})
		})
	}
}

// C84: with three tokens one failure leaves two, which is more than half, and two leave one.
func TestWhatTakesTokensOfTheThrottling(t *testing.T) {
	for _, c := range []struct {
		fact string
		says []answer
		came int
	}{
		{"an answer takes none", []answer{fails(codes.InvalidArgument), fails(codes.InvalidArgument), fails(codes.InvalidArgument), fails(codes.Unavailable), ok("")}, 5},
		{"pushback that says never takes one", []answer{fails(codes.InvalidArgument).push("-1"), fails(codes.NotFound), fails(codes.NotFound), fails(codes.Unavailable), ok("")}, 4},
		{"a failure takes one", []answer{fails(codes.Unavailable).push("abc"), fails(codes.NotFound), fails(codes.NotFound), fails(codes.Unavailable), ok("")}, 4},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := with(plain(), func(p *policy.Policy) {
				p.Retry.Budget = policy.Budget{Shape: policy.BudgetGRPC, Capacity: 3, Ratio: 0.001}
			})
			inRoom(t, p, func(r *room) {
				r.answers(c.says...)
				for range 4 {
					_, _ = r.call(safely())
				}
				if got := len(r.seen()); got != c.came {
					t.Errorf("%d attempts came, want %d", got, c.came)
				}
			})
		})
	}
}
