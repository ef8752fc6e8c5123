package gabioncaddy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// attempts sends what Caddy's transport http sends, with errors that say what they are.
type attempts struct{ http *reverseproxy.HTTPTransport }

// RoundTrip implements [http.RoundTripper].
func (a attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.http.RoundTrip(r)
	if err != nil {
		err = dialed(r.Context(), err)
	}
	return resp, err
}

// dialed is an error of connecting as package net has it. Caddy's DialError hides what it wraps, and then nothing says
// that the request was not sent and may be repeated.
func dialed(ctx context.Context, err error) error {
	hidden, ok := errors.AsType[reverseproxy.DialError](err)
	if !ok {
		return err
	}
	var why error = hidden
	switch over := ctx.Err(); {
	case over != nil:
		why = over
	case strings.HasSuffix(hidden.Error(), noSuchHost):
		why = &net.DNSError{Err: noSuchHost, IsNotFound: true}
	}
	return &net.OpError{Op: "dial", Net: "tcp", Err: why}
}

const noSuchHost = "no such host" // as net.DNSError says it
