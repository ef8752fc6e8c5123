package classify

import "github.com/gabion-go/gabion/policy"

// streamError has the fields of x/net/http2.StreamError. The error of net/http's
// own HTTP/2 is unexported, but its As method fills any struct that looks like
// this one (go.dev/issue/53896).
//
// It is all that Go tells of HTTP/2 in a type. A GOAWAY that cut a request off,
// and a REFUSED_STREAM whose body net/http could not send again, come as texts,
// so they stay unclassified and in doubt.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "http2 stream error" }

// resets says what the error codes of RFC 9113, section 7, mean. Codes not named
// here are violations of the protocol: nobody knows what would help.
var resets = map[uint32]policy.Outcome{
	0x0: maybe(policy.Network),      // NO_ERROR: ended early
	0x2: maybe(policy.ServerError),  // INTERNAL_ERROR
	0x5: maybe(policy.Network),      // STREAM_CLOSED
	0x7: unsent(policy.Network),     // REFUSED_STREAM: "prior to any processing having occurred", section 8.7
	0x8: maybe(policy.Network),      // CANCEL
	0xb: maybe(policy.Throttled),    // ENHANCE_YOUR_CALM
	0xc: unsent(policy.ClientError), // INADEQUATE_SECURITY
	0xd: unsent(policy.ClientError), // HTTP_1_1_REQUIRED
}

// reset knows HTTP/2 streams that were reset.
func (f *facts) reset() (policy.Outcome, bool) {
	if !f.has(hasStream) {
		return policy.Outcome{}, false
	}
	o, ok := resets[f.stream.Code]
	return o, ok
}
