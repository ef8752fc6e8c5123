package gabionproxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// refusal is an answer of the proxy's own.
type refusal struct {
	status   int
	reason   string // in snake_case
	title    string
	detail   string // what to do
	unsent   bool   // nothing of the request reached the server
	attempts int
	code     policy.GRPCCode // of gRPC; zero means by the status
	domain   string          // of details; empty means that of policies
	cause    error           // for the log
}

// page is where reasons are explained.
const page = "https://github.com/gabion-go/gabion/blob/main/docs/reasons.md#"

// problem is RFC 9457's.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Reason   string `json:"reason"`
	Effect   string `json:"effect"`
	Attempts int    `json:"attempts"`
}

// advice is what who calls through the proxy can do. The rest is for its operators.
var advice = map[policy.Reason]string{
	policy.NotSafe:           "send an Idempotency-Key with each request that changes something, the same one when you send it again, and the proxy repeats it",
	policy.BodyNotRewindable: "send a body of up to 64 KiB, or send the request again yourself if that is safe",
	policy.CallTimeout:       "ask again later, or give the request more time: timeout.call in the proxy's file, or your own deadline",
	policy.DeadlineShort:     "give the request more time",
	policy.RetryAfterTooLong: "come back after Retry-After",
	policy.BreakerOpen:       "come back later: the server fails, and the proxy tries by itself when it works again",
	policy.RateLimited:       "come back after Retry-After, or send less",
	policy.Paced:             "come back after Retry-After: the server asked for that time",
	policy.KeyMissing:        "send an Idempotency-Key",
	policy.OutcomeUnknown:    "ask the server what it did before you send a new request",
	policy.Invalid:           "fix the request: it has two idempotency keys, or an empty one",
	policy.UnknownDependency: "fix the proxy's configuration",
}

const otherAdvice = "ask again later; the page of the type says what operators can do"

// unreached is what to do where no connection came about. It is empty where that is not known, and has no address, which is not for clients.
func unreached(err error) string {
	switch lookup, ok := errors.AsType[*net.DNSError](err); {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens where the proxy sends this: start the server, or correct its address in the proxy's file"
	case ok && lookup.IsNotFound:
		return "the name of the server was not found: correct its address in the proxy's file"
	}
	return ""
}

// failed answers a request that brought no answer.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	if x := ofClient(r); x != nil {
		p.refuse(w, r, x)
		return
	}
	var e *gabion.Error
	if !errors.As(err, &e) {
		p.foreign(w, r, err)
		return
	}
	heads := recorded{head: w.Header()}
	gabionhttp.Error(&heads, e) // its status and its marks, and not its text
	if e.Reason == policy.KeyMissing || e.Reason == policy.Invalid {
		heads.status = http.StatusBadRequest // the caller is not this program
	}
	x := &refusal{status: heads.status, reason: e.Reason.String(), title: titleOf(e), detail: cmp.Or(advice[e.Reason], unreached(err), otherAdvice),
		unsent: e.Effect == policy.NoEffect, attempts: e.Attempts, code: codeOf(e), cause: err}
	p.refuse(w, r, x)
}

// foreign answers what failed outside of any policy: a program behind an ingress, or an upgrade that was not one.
func (p *Proxy) foreign(w http.ResponseWriter, r *http.Request, err error) {
	x := &refusal{status: http.StatusBadGateway, reason: "no_answer", title: "The server did not answer", detail: otherAdvice, cause: err}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		x.status, x.reason, x.title, x.detail = http.StatusRequestEntityTooLarge, "body_too_large", "The body is larger than this listener takes", "send less at once"
	case errors.Is(err, context.DeadlineExceeded):
		x.status, x.reason, x.title = http.StatusGatewayTimeout, policy.CallTimeout.String(), "The server did not answer in time"
	}
	p.refuse(w, r, x)
}

func titleOf(e *gabion.Error) string {
	plain := *e
	plain.Err = nil // errors tell of what is inside
	return plain.Error()
}

// codeOf is the status that clients of gRPC get. It is that of gabiongrpc.Status, but that what no policy ends
// and no server answered is UNAVAILABLE, as it is for clients without a proxy.
func codeOf(e *gabion.Error) policy.GRPCCode {
	switch e.Reason {
	case policy.KeyMissing:
		return grpccode.InvalidArgument
	case policy.OutcomeUnknown:
		return grpccode.Unknown
	case policy.UnknownDependency, policy.Invalid:
		return grpccode.Internal
	case policy.CallTimeout, policy.AttemptTimeout, policy.IdleTimeout, policy.BodyTimeout, policy.DeadlineShort:
		return grpccode.DeadlineExceeded
	case policy.Canceled:
		return grpccode.Cancelled
	}
	if said, ok := errors.AsType[*gabionhttp.StatusError](e.Err); ok && said.GRPC != grpccode.OK {
		return said.GRPC
	}
	if e.Reason == policy.NotRetryable && errors.Is(e, context.DeadlineExceeded) {
		return grpccode.DeadlineExceeded
	}
	return grpccode.Unavailable
}

// byStatus is what statuses of the proxy's own are in gRPC.
var byStatus = map[int]policy.GRPCCode{
	http.StatusNotFound: grpccode.Unimplemented, http.StatusForbidden: grpccode.PermissionDenied,
	http.StatusRequestEntityTooLarge: grpccode.ResourceExhausted, http.StatusGatewayTimeout: grpccode.DeadlineExceeded,
}

// refuse answers for the proxy itself.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, x *refusal) {
	p.tally.refused.Add(1)
	if x.cause != nil {
		p.options.Log.DebugContext(r.Context(), "refused", "reason", x.reason, "attempts", x.attempts, "error", x.cause)
	}
	h := w.Header()
	h.Set(HeaderAttempts, strconv.Itoa(x.attempts))
	h.Set(HeaderReason, x.reason)
	if e := exchangeOf(r.Context()); e != nil && e.note != "" {
		h.Add(HeaderReason, e.note)
	}
	exchangeOf(r.Context()).closes(h)
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Length")
	if as := speaksOf(r); as != speaksHTTP {
		x.call(w, r, as)
		return
	}
	body, _ := json.Marshal(problem{page + x.reason, x.title, x.status, x.detail, x.reason, x.effect(), x.attempts})
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(x.status)
	_, _ = w.Write(body)
}

func (x *refusal) effect() string {
	if x.unsent {
		return "not sent"
	}
	return "may have happened"
}
