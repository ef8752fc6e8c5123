package gabiongrpc

import (
	"google.golang.org/grpc/codes"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// declined is what the refusal of an [Admission] or a [Deadline] means. The server works and
// has no room, so that the breaker stays closed, and calls are spaced instead; unless only
// this tenant or this priority had too many. Only a dependency of ours is believed that
// nothing was done: another's gateway may have done work, and pass on what a server says.
func (a *attempt) declined(code codes.Code, o *policy.Outcome) {
	switch {
	case code == codes.DeadlineExceeded:
		o.Class = policy.ClassTimeout
	case code == codes.Unavailable && o.Class == policy.ClassServer,
		code == codes.ResourceExhausted && !a.permanent(grpccode.ResourceExhausted):
		o.Class, o.Alone, o.Busy = policy.ClassThrottled, !o.Stop, o.Stop
	}
	if a.of.policy.Trust == policy.Internal {
		o.Effect, o.Undone = policy.NoEffect, true
	}
}
