package formats

import (
	"slices"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// wordsOfHTTP are the answers that are none of gRPC's of which a client of gRPC makes a code, and connections:
// https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
var wordsOfHTTP = map[policy.GRPCCode][]string{
	grpccode.Internal:         {"400"},
	grpccode.Unauthenticated:  {"401"},
	grpccode.PermissionDenied: {"403"},
	grpccode.Unimplemented:    {"404"},
	grpccode.Unavailable:      {"429", "502", "503", "504", outcome.Refused, outcome.Reset},
	grpccode.Unknown:          {"402", "405-428", "430-501", "505-599"},
	grpccode.DeadlineExceeded: {outcome.Timeout},
}

// repeatsOfGRPC is what a policy of a service config sends again, for the lab: its codes, and what a client makes them of.
func repeatsOfGRPC(p *policy.GRPC) []string {
	made := []string{}
	for _, code := range append([]policy.GRPCCode{grpccode.Unavailable, grpccode.Aborted}, p.Transient...) {
		if !slices.Contains(p.Permanent, code) {
			made = append(append(made, outcome.Word(outcome.OfCode(code))), wordsOfHTTP[code]...)
		}
	}
	return made
}
