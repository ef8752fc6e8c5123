package formats

import (
	"slices"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// codesOfHTTP are the codes that a client of gRPC makes of answers that are none of gRPC's, and of connections:
// https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
var codesOfHTTP = []struct {
	code  policy.GRPCCode
	words []string
}{
	{grpccode.Internal, []string{"400"}},
	{grpccode.Unauthenticated, []string{"401"}},
	{grpccode.PermissionDenied, []string{"403"}},
	{grpccode.Unimplemented, []string{"404"}},
	{grpccode.Unavailable, []string{"429", "502", "503", "504", "refused", "reset"}},
	{grpccode.Unknown, []string{"402", "405-428", "430-501", "505-599"}},
	{grpccode.DeadlineExceeded, []string{"timeout"}},
}

// repeatsOfGRPC is what a policy of a service config sends again, for the lab, whose answers are those of HTTP.
func repeatsOfGRPC(p *policy.GRPC) []string {
	made := []string{}
	for _, of := range codesOfHTTP {
		listed := slices.Contains(p.Transient, of.code) || of.code == grpccode.Unavailable
		if listed && !slices.Contains(p.Permanent, of.code) {
			made = append(made, of.words...)
		}
	}
	return made
}
