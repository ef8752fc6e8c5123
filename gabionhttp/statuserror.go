package gabionhttp

import (
	"fmt"
	"net/http"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// StatusError is the failure of an answer that is no longer there.
type StatusError struct {
	Code int             // the HTTP status
	GRPC policy.GRPCCode // what an answer of gRPC or Connect says besides its status of 200; zero for others
}

func (e *StatusError) packed() int32 { return int32(e.Code) | int32(e.GRPC)<<16 }

// unpacked is the reverse of packed; nil for zero.
func unpacked(n int32) *StatusError {
	if n == 0 {
		return nil
	}
	return &StatusError{Code: int(n & 0xffff), GRPC: policy.GRPCCode(n >> 16)}
}

// Outcome is what the answer meant. A success that a classifier called a failure is
// unclassified: the status says nothing about it.
func (e *StatusError) Outcome() policy.Outcome {
	if e.GRPC != grpccode.OK {
		return classify.Rules{}.GRPCCode(e.GRPC)
	}
	if o := outcome.ByStatus(e.Code); o.Class != policy.ClassSuccess {
		return o
	}
	return policy.Failed(policy.ClassServer)
}

// Error reads "503 Service Unavailable", or "UNAVAILABLE".
func (e *StatusError) Error() string {
	if e.GRPC != grpccode.OK {
		return e.GRPC.String()
	}
	return fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code))
}
