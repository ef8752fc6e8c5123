package adapter

import (
	"errors"
	"net/http"
	"net/textproto"
)

// ErrBodyOver is what a request's body says to an attempt that is over.
var ErrBodyOver = errors.New("gabionhttp: request body read after its attempt was over")

// A Replay is a request's body that is remembered while it streams. The request's GetBody
// gives another one, at whose first Read the one before is over, until too much went by. Its
// methods are safe for concurrent use.
type Replay interface {
	// Fixed says why GetBody has nothing more to give. Nil means that it has.
	Fixed() error

	// Whole reports whether all of the body has been read from the client, so that no reader waits. Fixed says
	// whether it can be sent again.
	Whole() bool
}

// Prompt is an http.RoundTripper that uses the trace of a request as net/http's Transport does, and that may be more than
// that is: Prompt reports whether RoundTrip returns when the request's context ends, also while the reader of the request's
// body blocks.
type Prompt interface{ Prompt(*http.Request) bool }

// Around is an http.RoundTripper that looks at what another one sends, and may change its headers. Inside returns that.
type Around interface{ Inside() http.RoundTripper }

// EarlyKey is the context's key for an Early.
type EarlyKey struct{}

// Early gets the answers of 1xx to the attempts of a request, as a [net/http/httptrace.ClientTrace] does.
type Early interface {
	Got1xx(status int, h textproto.MIMEHeader) error
}

// VerdictKey is the context's key for what became of its last request: see gabionhttp.WithVerdict.
type VerdictKey struct{}
