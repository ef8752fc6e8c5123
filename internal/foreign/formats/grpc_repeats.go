package formats

import (
	"slices"

	"github.com/gabion-go/gabion/policy"
)

// codesOfHTTP are the codes that a client of gRPC makes of answers that are none of gRPC's, and of connections:
// https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
var codesOfHTTP = []struct {
	code  policy.GRPCCode
	words []string
}{
	{policy.GRPCInternal, []string{"400"}},
	{policy.GRPCUnauthenticated, []string{"401"}},
	{policy.GRPCPermissionDenied, []string{"403"}},
	{policy.GRPCUnimplemented, []string{"404"}},
	{policy.GRPCUnavailable, []string{"429", "502", "503", "504", "refused", "reset"}},
	{policy.GRPCUnknown, []string{"402", "405-428", "430-501", "505-599"}},
	{policy.GRPCDeadlineExceeded, []string{"timeout"}},
}

// repeatsOfGRPC is what a policy of a service config sends again, for the lab, whose answers are those of HTTP.
func repeatsOfGRPC(p *policy.GRPC) []string {
	made := []string{}
	for _, of := range codesOfHTTP {
		listed := slices.Contains(p.Transient, of.code) || of.code == policy.GRPCUnavailable
		if listed && !slices.Contains(p.Permanent, of.code) {
			made = append(made, of.words...)
		}
	}
	return made
}
