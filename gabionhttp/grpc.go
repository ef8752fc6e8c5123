package gabionhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// protocol is one whose answers say in their own way how a call ended: the HTTP status is
// 200 whatever came of it.
type protocol uint8

const (
	plainHTTP     protocol = iota
	grpcHTTP2              // gRPC: in the trailers, or in the headers of an answer without a body
	grpcWeb                // gRPC-Web: in the last frame of the body, or in the headers
	connectStream          // streams of Connect: in the last frame of the body
)

// protocolOf is the protocol of an answer. gRPC-Web's text, which is for browsers, and
// Connect's unary calls, whose HTTP status tells, are plain HTTP.
func protocolOf(req *http.Request, resp *http.Response) protocol {
	kind, ok := strings.CutPrefix(first(resp.Header, "Content-Type"), "application/")
	if !ok || resp.StatusCode != http.StatusOK || req.Method != http.MethodPost {
		return plainHTTP
	}
	kind, _, _ = strings.Cut(kind, ";")
	name, codec, _ := strings.Cut(kind, "+")
	switch {
	case name == "grpc":
		return grpcHTTP2
	case name == "grpc-web":
		return grpcWeb
	case name == "connect" && codec != "":
		return connectStream
	}
	return plainHTTP
}

// rpcEnd is how a call of gRPC or Connect ended, as its server tells.
type rpcEnd struct {
	protocol protocol
	known    bool // the rest counts
	code     policy.GRPCCode
	pushback []string // as the server wrote it
	refused  bool     // by an Admission
	judged   bool     // it was known at the verdict
	body     frames   // what was seen of it
}

// flag is that of the last frame; zero means that no frame tells the end.
func (p protocol) flag() byte {
	switch p {
	case grpcWeb:
		return 0x80
	case connectStream:
		return 0x02
	}
	return 0
}

// readHeader reads headers or trailers of gRPC. It reports whether they tell the end.
func (r *rpcEnd) readHeader(h http.Header) bool {
	code := first(h, "Grpc-Status")
	if code == "" {
		return false
	}
	r.known, r.code = true, grpccode.Unknown
	if n, err := strconv.ParseUint(code, 10, 8); err == nil && n <= uint64(grpccode.Unauthenticated) {
		r.code = policy.GRPCCode(n)
	}
	r.readHints(h)
	return true
}

// readHints reads what a server says beside the code of its failure.
func (r *rpcEnd) readHints(h http.Header) {
	r.pushback = h["Grpc-Retry-Pushback-Ms"]
	r.refused = h[HeaderRefused] != nil && h[HeaderGaveUp] == nil
}

// readFrame reads the last frame of a body.
func (r *rpcEnd) readFrame(payload []byte) {
	if r.protocol == grpcWeb {
		h := make(http.Header)
		for line := range strings.Lines(string(payload)) {
			if name, value, ok := strings.Cut(line, ":"); ok {
				h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
			}
		}
		r.readHeader(h)
		return
	}
	var end struct {
		Error *struct {
			Code string `json:"code"`
		} `json:"error"`
		Metadata map[string][]string `json:"metadata"`
	}
	if r.known = json.Unmarshal(payload, &end) == nil; !r.known || end.Error == nil {
		return
	}
	if r.code.UnmarshalText([]byte(end.Error.Code)) != nil || r.code == grpccode.OK {
		r.code = grpccode.Unknown
	}
	h := make(http.Header)
	for name, values := range end.Metadata {
		for _, value := range values {
			h.Add(name, value)
		}
	}
	r.readHints(h)
}

// failure is what the end means; a zero class means that the call succeeded.
func (f *httpAttempt) rpcFailure() (o policy.Outcome) {
	r, c := f.rpc, f.of
	if r.code == grpccode.OK {
		return o
	}
	o = classify.Rules{GRPC: *c.codes}.GRPCCode(r.code)
	switch {
	case r.code == grpccode.Cancelled && f.Context.Err() == nil: // the caller did not cancel it
		o.Class = policy.ClassUnclassified
	case r.code == grpccode.DeadlineExceeded && f.late():
		o.Class = policy.ClassTimeout
	}
	n, err := int64(-1), error(nil)
	if len(r.pushback) == 1 {
		n, err = strconv.ParseInt(r.pushback[0], 10, 64)
	}
	o.Stop = len(r.pushback) > 0 && (n < 0 || err != nil) || says(f.resp.Header, headerShouldRetry, "false")
	if r.refused {
		f.declinedRPC(&o)
	}
	if len(r.pushback) > 0 && !o.Stop && o.Class.Transient() {
		o.HasAfter, o.Exact, o.Alone = true, true, true
		o.After = time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	if f.seen.now().wrote > 1 { // the answer speaks of the last sending only
		o.Effect, o.Undone = policy.UnknownEffect, false
	}
	return o
}

// declinedRPC is what the refusal of an Admission means: as declined, for gRPC. Only who is
// trusted is believed that nothing was done.
func (f *httpAttempt) declinedRPC(o *policy.Outcome) {
	switch f.rpc.code {
	case grpccode.Unavailable, grpccode.ResourceExhausted:
		if o.Class == policy.ClassServer || f.rpc.code == grpccode.ResourceExhausted {
			o.Class, o.Alone, o.Busy = policy.ClassThrottled, !o.Stop, o.Stop
		}
	case grpccode.DeadlineExceeded:
		o.Class = policy.ClassTimeout
	}
	if f.of.ours {
		o.Effect, o.Undone = policy.NoEffect, true
	}
}

// late reports whether the time is over that the server got as its deadline. It is less than the
// attempt's own by the margin, and in whole milliseconds.
func (f *httpAttempt) late() bool { return f.over(f.Context) }

func (f *httpAttempt) over(ctx context.Context) bool {
	at, ok := ctx.Deadline()
	return ok && time.Until(at) <= max(f.of.margin, time.Millisecond)+time.Millisecond
}

// rpcWait is how long an answer may keep the verdict waiting that began and does not say yet
// how the call ended. Servers that fail without a message write both at once. A stream's
// first message may be hours away.
const rpcWait = 100 * time.Millisecond

// patience is how long to wait. The attempt's timeout keeps running and must not expire because
// of the wait.
func (f *httpAttempt) patience() time.Duration {
	if at, ok := f.Context.Deadline(); ok {
		return max(min(rpcWait, time.Until(at)/2), 0)
	}
	return rpcWait
}

// rpcBegins is how much of a body is looked at.
const rpcBegins = 1 << 10

// learnRPC finds out how the call ended, if that is known before its first message. The
// error is that of a body that broke before. The answer goes on in place of resp.
func (f *httpAttempt) learnRPC(resp *http.Response) (*http.Response, error) {
	p := protocolOf(&f.out, resp)
	if p == plainHTTP {
		return resp, nil
	}
	r := &rpcEnd{protocol: p, body: frames{flag: p.flag(), packing: packing(resp.Header)}}
	f.rpc, r.body.end = r, r.readFrame
	switch {
	case p != connectStream && r.readHeader(resp.Header), resp.Body == nil:
	case f.of.body.live(): // its sender may wait for this answer before it sends more
	default:
		var err error
		if resp, err = r.look(resp, f.patience()); err != nil {
			return resp, err
		}
	}
	r.judged = r.known
	r.body.rewind() // the caller reads all of it again
	return resp, nil
}

// packing is how frames are packed that say that they are.
func packing(h http.Header) string {
	return cmp.Or(first(h, "Connect-Content-Encoding"), first(h, "Grpc-Encoding"))
}

// look looks at the beginning of an answer, which the caller still reads all of.
func (r *rpcEnd) look(resp *http.Response, most time.Duration) (*http.Response, error) {
	resp, k := keep(resp, rpcBegins)
	k.filling, k.enough = true, r.protocol == grpcHTTP2 // a message shows that the end is not there yet, whatever is in it
	go k.fill()
	defer k.suffices()
	size := rpcBegins
	if k.enough {
		size = 1
	}
	until, head, seen := time.Now().Add(most), make([]byte, size), 0
	for {
		n, err := k.look(head[seen:], seen, until)
		r.body.see(head[seen : seen+n])
		switch seen += n; {
		case err != nil && !errors.Is(err, io.EOF) && seen == 0:
			return resp, err
		case err != nil && k.ended() && !r.body.message:
			k.trail()
			r.ended(resp)
			return resp, nil
		case err != nil, r.known, r.protocol == grpcHTTP2, r.body.message, seen == len(head):
			return resp, nil
		}
	}
}

// ended is called at the end of the body.
func (r *rpcEnd) ended(resp *http.Response) {
	switch {
	case r.known:
	case r.protocol == grpcHTTP2 && r.readHeader(resp.Trailer):
	case r.body.unread: // the server did tell
		r.known = true
	default: // what was cut off, or lost its trailers on the way, is no success
		r.known, r.code = true, grpccode.Unknown
	}
}

// rpcBroke reports whether an answer that began well ended as a failure of the dependency.
func (f *httpAttempt) rpcBroke() error {
	if f.rpc == nil || f.rpc.judged {
		return nil
	}
	f.rpc.ended(f.resp)
	if f.rpc.code == grpccode.DeadlineExceeded && f.over(f.of.req.Context()) { // by the caller's own clock
		return nil
	}
	switch o := f.rpcFailure(); {
	case o.Class.Transient() && o.Class != policy.ClassContention && o.Class != policy.ClassThrottled, o.Class == policy.ClassUnclassified:
		return f.statusError()
	}
	return nil
}

// statusError is the failure that the answer tells.
func (f *httpAttempt) statusError() *StatusError {
	e := &StatusError{Code: f.resp.StatusCode}
	if f.rpc != nil {
		e.GRPC = f.rpc.code
	}
	return e
}

// stopRPC tells the layers above in the way of gRPC that retrying was done here.
func stopRPC(resp *http.Response) {
	for _, h := range []http.Header{resp.Header, resp.Trailer} {
		if h["Grpc-Status"] != nil {
			h["Grpc-Retry-Pushback-Ms"] = []string{"-1"}
		}
	}
}
