package policy

import (
	"encoding"
	"slices"
	"strconv"
	"strings"
)

// GRPC adjusts how the codes of gRPC answers are read. Every code not named here keeps its
// meaning: UNAVAILABLE is transient, ABORTED is a conflict that is repeated soon, and an INTERNAL,
// UNKNOWN or DATA_LOSS is a failure that may be permanent. A DEADLINE_EXCEEDED is a timeout if it
// was the attempt's own, and else of the same kind. All others are answers. The zero GRPC changes
// nothing.
type GRPC struct {
	// Transient are further codes to retry, such as RESOURCE_EXHAUSTED.
	Transient []GRPCCode

	// Permanent are codes that are never retried.
	Permanent []GRPCCode
}

// GRPCCode is the code of a gRPC answer, with the number that it has on the wire and in grpc-go: a program writes
// GRPCCode(codes.ResourceExhausted). Files write its name, in capitals or small letters.
type GRPCCode uint8

var grpcText = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
	"DATA_LOSS", "UNAUTHENTICATED",
}

var (
	_ encoding.TextMarshaler   = GRPCCode(0)
	_ encoding.TextUnmarshaler = (*GRPCCode)(nil)
)

// String returns the name, such as "UNAVAILABLE".
func (c GRPCCode) String() string { return word(grpcText, c) }

// MarshalText returns the name, and an error for an unknown value.
func (c GRPCCode) MarshalText() ([]byte, error) { return marshalWord(grpcText, c) }

// UnmarshalText reads a name such as "UNAVAILABLE" or "unavailable", and CANCELED as well as
// CANCELLED; on an error c stays as it was.
func (c *GRPCCode) UnmarshalText(text []byte) error {
	name := strings.ToUpper(string(text))
	if name == "CANCELED" {
		name = "CANCELLED"
	}
	return unmarshalWord(grpcText, c, []byte(name))
}

func (c *check) grpc(g GRPC) {
	c.codes("grpc.transient", g.Transient)
	c.codes("grpc.permanent", g.Permanent)
	for _, code := range g.Permanent {
		if slices.Contains(g.Transient, code) {
			c.add("grpc.permanent", "grpc.transient", code.String(), "is in grpc.transient too", "name it in one of the lists")
		}
	}
}

func (c *check) codes(path string, list []GRPCCode) {
	for _, code := range list {
		switch {
		case int(code) >= len(grpcText):
			c.add(path, "", strconv.Itoa(int(code)), "is no gRPC code", "write one from CANCELLED (1) to UNAUTHENTICATED (16)")
		case code <= 1: // OK and CANCELLED
			c.add(path, "", code.String(), "is no failure of the dependency", "leave it out")
		}
	}
}
