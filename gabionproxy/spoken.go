package gabionproxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// spoken says in a header why keys or admission refused before a program, and gives clients of calls what is refused in their own
// form: those write problems for clients of HTTP alone.
type spoken struct {
	proxy *Proxy
	next  http.Handler
}

// ServeHTTP implements [http.Handler].
func (s spoken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := &holding{ResponseWriter: w}
	defer s.end(h, r) // also where the program's answer breaks off
	s.next.ServeHTTP(h, r)
}

// end writes what is held.
func (s spoken) end(h *holding, r *http.Request) {
	if h.status == 0 {
		return
	}
	e := exchangeOf(r.Context())
	switch x := ofURN(h.status, h.body); {
	case x == nil, e != nil && (e.refused.Load() || x.unsent && e.asked.Load()), h.Header()["Idempotent-Replayed"] != nil:
		// The program's, which may have keys and admission of its own, or stand behind another proxy.
	case speaksOf(r) != speaksHTTP:
		s.proxy.refuse(h.ResponseWriter, r, x)
		return
	default:
		s.proxy.tally.refused.Add(1)
		h.Header()[HeaderReason] = []string{x.reason}
		if x.unsent {
			h.Header()[HeaderAttempts] = []string{"0"}
		}
		h.body = x.completes(h.body)
	}
	h.letGo()
}

// completes adds to a problem what those of this proxy say. Its own members stay.
func (x *refusal) completes(body []byte) []byte {
	more, _ := json.Marshal(map[string]string{"detail": x.detail, "effect": x.effect(), "reason": x.reason})
	if x.unsent {
		more = append(bytes.TrimSuffix(more, []byte("}")), `,"attempts":0}`...)
	}
	return append(append(bytes.TrimSuffix(body, []byte("}")), ','), more[1:]...)
}

// holding keeps a short problem back, since the program may have one of its own.
type holding struct {
	http.ResponseWriter
	status int // of what is held; zero means nothing
	body   []byte
}

// mostHeld is more than gabion's own problems have.
const mostHeld = 4 << 10

// Unwrap lets http.ResponseController reach the client.
func (h *holding) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func isProblem(status int, h http.Header) bool {
	return status >= http.StatusBadRequest && h.Get("Content-Type") == "application/problem+json"
}

// WriteHeader implements [http.ResponseWriter].
func (h *holding) WriteHeader(status int) {
	if isProblem(status, h.Header()) && h.Header()["Trailer"] == nil {
		h.status = status
		return
	}
	h.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (h *holding) Write(p []byte) (int, error) {
	switch {
	case h.status == 0:
		return h.ResponseWriter.Write(p)
	case len(h.body)+len(p) <= mostHeld:
		h.body = append(h.body, p...)
		return len(p), nil
	}
	h.letGo()
	return h.ResponseWriter.Write(p)
}

// FlushError implements what [http.ResponseController] looks for.
func (h *holding) FlushError() error {
	if h.status != 0 {
		return nil
	}
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// letGo writes what is held as it is.
func (h *holding) letGo() {
	h.ResponseWriter.WriteHeader(h.status)
	_, _ = h.ResponseWriter.Write(h.body)
	h.status, h.body = 0, nil
}

// ofKeys are the problems of package idempotency that statuses of HTTP do not tell apart, or that package grpcidem names otherwise.
var ofKeys = map[string]refusal{
	"missing":               {reason: "key_missing", detail: "send an Idempotency-Key, the same one when you send the request again"},
	"malformed":             {reason: "key_malformed", detail: "send one Idempotency-Key"},
	"mismatch":              {reason: "key_reused", code: grpccode.FailedPrecondition, unsent: true, detail: "send a new key with each new request"},
	"in-progress":           {code: grpccode.Aborted, detail: "send the same request again after Retry-After"},
	"response-not-retained": {code: grpccode.FailedPrecondition, detail: "read what the request has made: it was carried out"},
	"outcome-unknown":       {code: grpccode.Unknown, detail: "ask the server what it did before you send a new request"},
	"store-unavailable":     {unsent: true, detail: "send the same request again after Retry-After"},
}

// codes are what the statuses of such problems are in gRPC.
var codes = map[int]policy.GRPCCode{
	http.StatusBadRequest: grpccode.InvalidArgument, http.StatusRequestEntityTooLarge: grpccode.ResourceExhausted,
	http.StatusInternalServerError: grpccode.Internal, http.StatusGatewayTimeout: grpccode.DeadlineExceeded,
}

// ofURN reads a problem of gabion's, as clients of package gabiongrpc know it. It is nil for one of the program's.
func ofURN(status int, body []byte) *refusal {
	var p problem
	if json.Unmarshal(body, &p) != nil {
		return nil
	}
	rest, _ := strings.CutPrefix(p.Type, "urn:gabion:")
	of, name, _ := strings.Cut(rest, ":")
	var x refusal
	switch of {
	case "idempotency":
		if x = ofKeys[name]; status == http.StatusServiceUnavailable {
			x.code = grpccode.Unavailable // also where it may soon be known what was done
		}
		x.domain, x.detail = "idempotency.gabion", cmp.Or(x.detail, "docs/idempotency.md says what to do")
		x.unsent = x.unsent || status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge
	case "admission":
		x.unsent, x.detail = true, "send the request again later, or give it more time"
	default:
		return nil
	}
	x.status, x.title = status, p.Title
	x.reason = cmp.Or(x.reason, strings.ReplaceAll(name, "-", "_"))
	x.code = cmp.Or(x.code, codes[status], grpccode.Unavailable)
	return &x
}
