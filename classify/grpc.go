package classify

import (
	"reflect"
	"slices"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// grpcCode reads err.GRPCStatus().Code(), by which every gRPC library knows its
// own errors. The names of methods are constants so that the linker can still
// drop unused methods.
func grpcCode(v reflect.Value) (uint64, bool) {
	status, ok := result(v.MethodByName("GRPCStatus"))
	if !ok || status.Kind() == reflect.Pointer && status.IsNil() {
		return 0, false
	}
	if status.Kind() == reflect.Interface {
		status = status.Elem()
	}
	if !status.IsValid() {
		return 0, false
	}
	code, ok := result(status.MethodByName("Code"))
	if !ok || !code.CanUint() {
		return 0, false
	}
	return code.Uint(), true
}

// A grpcMeaning is what a code means, and its name.
type grpcMeaning struct {
	name string
	meaning
}

// codes are gRPC's, in their order. The unclassified ones are failures that may or may not be
// transient.
var codes = [...]grpcMeaning{
	0:  {"OK", inDoubt(policy.ClassUnclassified)}, // an error that says OK says nothing
	1:  {"CANCELLED", inDoubt(policy.ClassIgnored)},
	2:  {"UNKNOWN", inDoubt(policy.ClassUnclassified)},
	3:  {"INVALID_ARGUMENT", refusedBy(policy.ClassClient)},
	4:  {"DEADLINE_EXCEEDED", inDoubt(policy.ClassUnclassified)}, // whose deadline? The attempt's own is known by the clock
	5:  {"NOT_FOUND", refusedBy(policy.ClassBusiness)},
	6:  {"ALREADY_EXISTS", refusedBy(policy.ClassClient)},
	7:  {"PERMISSION_DENIED", refusedBy(policy.ClassClient)},
	8:  {"RESOURCE_EXHAUSTED", inDoubt(policy.ClassClient)}, // a quota, or an answer too large for us; passing only where the policy says so
	9:  {"FAILED_PRECONDITION", refusedBy(policy.ClassClient)},
	10: {"ABORTED", inDoubt(policy.ClassContention)}, // a conflict; whether all was undone is not said
	11: {"OUT_OF_RANGE", refusedBy(policy.ClassClient)},
	12: {"UNIMPLEMENTED", refusedBy(policy.ClassClient)},
	13: {"INTERNAL", inDoubt(policy.ClassUnclassified)},
	14: {"UNAVAILABLE", inDoubt(policy.ClassServer)},
	15: {"DATA_LOSS", inDoubt(policy.ClassUnclassified)},
	16: {"UNAUTHENTICATED", refusedBy(policy.ClassClient)},
}

// GRPCCode decides what the code of a gRPC answer means, where there is no error to tell it.
// OK is a success.
func (r Rules) GRPCCode(code policy.GRPCCode) (o policy.Outcome) {
	if code == grpccode.OK {
		o.Class = policy.ClassSuccess
		return o
	}
	m, ok := r.grpc(uint64(code))
	if !ok { // an unknown number
		m, _ = r.grpc(uint64(grpccode.Unknown))
	}
	m.fill(&o)
	return o
}

// grpc says what a code means to r.
func (r *Rules) grpc(code uint64) (meaning, bool) {
	if code >= uint64(len(codes)) {
		return meaning{}, false
	}
	m := codes[code]
	if code != 0 { // an error that says OK says nothing
		m.code = m.name
	}
	switch c := policy.GRPCCode(code); {
	case slices.Contains(r.GRPC.Permanent, c):
		m.class = permanent(m.class)
	case slices.Contains(r.GRPC.Transient, c):
		m.class = transientCode(c, m.class)
	}
	return m.meaning, true
}

// transientCode is the class of a code that is listed as worth a retry.
func transientCode(code policy.GRPCCode, class policy.Class) policy.Class {
	switch code {
	case grpccode.ResourceExhausted:
		return policy.ClassThrottled
	case grpccode.DeadlineExceeded:
		return policy.ClassTimeout
	}
	return transient(class)
}
