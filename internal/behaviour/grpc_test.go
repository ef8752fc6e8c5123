package behaviour

import (
	"context"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

func TestDoReadsTheCodesOfGRPCAsThePolicySays(t *testing.T) {
	quota, outage := &rpcError{&rpcStatus{8}}, &rpcError{&rpcStatus{14}}
	for _, c := range []struct {
		fact  string
		codes policy.GRPC
		err   error
		sent  int
		why   gabion.Reason
	}{
		{"a quota is an answer", policy.GRPC{}, quota, 1, policy.NotRetryable},
		{"a quota that is listed is retried", policy.GRPC{Transient: []policy.GRPCCode{grpccode.ResourceExhausted}}, quota, 3, policy.AttemptsExhausted},
		{"an outage is retried", policy.GRPC{}, outage, 3, policy.AttemptsExhausted},
		{"an outage that is listed as permanent is not", policy.GRPC{Permanent: []policy.GRPCCode{grpccode.Unavailable}}, outage, 1, policy.NotRetryable},
		{"lists leave other codes alone", policy.GRPC{Transient: []policy.GRPCCode{grpccode.Internal}}, quota, 1, policy.NotRetryable},
	} {
		t.Run(c.fact, func(t *testing.T) {
			d := gabion.New("ledger", policy.Policy{
				GRPC: c.codes, Safe: true, Pace: policy.Pace{Off: true},
				Retry: policy.Retry{Backoff: backoff.Backoff{Base: 10 * time.Microsecond}, Hold: policy.Off, Budget: policy.Budget{Off: true}},
			})
			sent := 0
			err := d.Run(t.Context(), func(context.Context) error { sent++; return c.err })
			if sent != c.sent || gabion.ReasonOf(err) != c.why {
				t.Errorf("%d attempts, %v", sent, err)
			}
		})
	}
}
