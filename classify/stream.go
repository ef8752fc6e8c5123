package classify

import "github.com/gabion-go/gabion/policy"

// streamError has the fields of x/net/http2.StreamError. The error of net/http's
// own HTTP/2 is unexported, but its As method fills any struct that looks like
// this one (go.dev/issue/53896).
//
// It is all that Go tells of HTTP/2 streams in a type. A GOAWAY to the first request of a
// connection, and a REFUSED_STREAM whose body net/http could not send again, come as
// texts, so they stay unclassified and in doubt. A connection that ends after a GOAWAY
// is known by its type's name: see drivers.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "http2 stream error" }

const enhanceYourCalm = 0xb

// resets says what the error codes of RFC 9113, section 7, mean. Codes not named
// here are violations of the protocol, which a retry may or may not help.
var resets = map[uint32]meaning{
	0x0: inDoubt(policy.ClassNetwork),   // NO_ERROR: ended early
	0x2: inDoubt(policy.ClassServer),    // INTERNAL_ERROR
	0x5: inDoubt(policy.ClassNetwork),   // STREAM_CLOSED
	0x7: neverLeft(policy.ClassNetwork), // REFUSED_STREAM: "prior to any processing having occurred", section 8.7
	0x8: inDoubt(policy.ClassNetwork),   // CANCEL
	0xc: neverLeft(policy.ClassClient),  // INADEQUATE_SECURITY
	0xd: neverLeft(policy.ClassClient),  // HTTP_1_1_REQUIRED

	enhanceYourCalm: inDoubt(policy.ClassThrottled),
}

// reset knows HTTP/2 streams that were reset.
func (f *facts) reset() (meaning, bool) {
	if !f.has(hasStream) {
		return meaning{}, false
	}
	o, ok := resets[f.stream.Code]
	return o, ok
}
