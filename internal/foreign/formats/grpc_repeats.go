package formats

import (
	"slices"

	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// wordsOfHTTP are the answers that are none of gRPC's of which a client of gRPC makes a code, and connections:
// https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
var wordsOfHTTP = map[policy.GRPCCode][]string{
	policy.GRPCInternal:         {"400"},
	policy.GRPCUnauthenticated:  {"401"},
	policy.GRPCPermissionDenied: {"403"},
	policy.GRPCUnimplemented:    {"404"},
	policy.GRPCUnavailable:      {"429", "502", "503", "504", outcome.Refused, outcome.Reset},
	policy.GRPCUnknown:          {"402", "405-428", "430-501", "505-599"},
	policy.GRPCDeadlineExceeded: {outcome.Timeout},
}

// repeatsOfGRPC is what a policy of a service config sends again, for the lab: its codes, and what a client makes them of.
func repeatsOfGRPC(p *policy.GRPC) []string {
	made := []string{}
	for _, code := range append([]policy.GRPCCode{policy.GRPCUnavailable, policy.GRPCAborted}, p.Transient...) {
		if !slices.Contains(p.Permanent, code) {
			made = append(append(made, outcome.Word(outcome.OfCode(code))), wordsOfHTTP[code]...)
		}
	}
	return made
}
