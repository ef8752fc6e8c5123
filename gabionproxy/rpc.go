package gabionproxy

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// speaks is how a client of calls wants a refusal to be written.
type speaks uint8

const (
	speaksHTTP          speaks = iota
	speaksGRPC                 // in trailers
	speaksGRPCWeb              // in a frame of the body that holds trailers
	speaksConnect              // in JSON, with a status of HTTP
	speaksConnectStream        // in the envelope that ends a stream
)

func speaksOf(r *http.Request) speaks {
	kind := r.Header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "application/grpc-web"):
		return speaksGRPCWeb
	case strings.HasPrefix(kind, "application/grpc"):
		return speaksGRPC
	case strings.HasPrefix(kind, "application/connect+"):
		return speaksConnectStream
	case r.Header.Get("Connect-Protocol-Version") == "1", r.Method == http.MethodGet && r.URL.Query().Get("connect") == "v1":
		return speaksConnect
	}
	return speaksHTTP
}

// call answers a client of calls, as it speaks.
func (x *refusal) call(w http.ResponseWriter, r *http.Request, as speaks) {
	h := w.Header()
	code := x.code
	if code == grpccode.OK {
		code = cmp.Or(byStatus[x.status], grpccode.Unavailable)
	}
	said := callStatus{code: code, message: x.title + ": " + x.detail, details: x.details(h.Get("Retry-After"))}
	if as == speaksGRPC {
		h.Set("Content-Type", "application/grpc")
		said.trailers(h, h.Get("X-Should-Retry") == "false")
		w.WriteHeader(http.StatusOK)
		return
	}
	kind, status, body := "application/json", connectStatus[code], said.json()
	switch as {
	case speaksGRPCWeb:
		trailers := http.Header{}
		said.trailers(trailers, h.Get("X-Should-Retry") == "false")
		var text strings.Builder
		for name, lines := range trailers {
			text.WriteString(strings.ToLower(name) + ": " + lines[0] + "\r\n")
		}
		kind, status, body = r.Header.Get("Content-Type"), http.StatusOK, envelope(0x80, []byte(text.String()))
		if strings.HasPrefix(kind, "application/grpc-web-text") {
			body = []byte(base64.StdEncoding.EncodeToString(body))
		}
	case speaksConnectStream:
		kind, status, body = r.Header.Get("Content-Type"), http.StatusOK, envelope(0x02, append(append([]byte(`{"error":`), body...), '}'))
	}
	h.Set("Content-Type", kind)
	w.WriteHeader(cmp.Or(status, http.StatusInternalServerError))
	_, _ = w.Write(body)
}

// connectStatus are the statuses that the Connect protocol has for codes.
var connectStatus = map[policy.GRPCCode]int{
	grpccode.Cancelled: 499, grpccode.InvalidArgument: http.StatusBadRequest, grpccode.DeadlineExceeded: http.StatusGatewayTimeout,
	grpccode.NotFound: http.StatusNotFound, grpccode.AlreadyExists: http.StatusConflict, grpccode.PermissionDenied: http.StatusForbidden,
	grpccode.ResourceExhausted: http.StatusTooManyRequests, grpccode.FailedPrecondition: http.StatusBadRequest, grpccode.Aborted: http.StatusConflict,
	grpccode.OutOfRange: http.StatusBadRequest, grpccode.Unimplemented: http.StatusNotImplemented, grpccode.Unavailable: http.StatusServiceUnavailable,
	grpccode.Unauthenticated: http.StatusUnauthorized,
}

// callStatus is google.rpc.Status.
type callStatus struct {
	code    policy.GRPCCode
	message string
	details []detail
}

// detail is a message of google.rpc, with its bytes.
type detail struct {
	name  string
	value []byte
}

// details are what a program can read: the reason with what happened, in the domain that package gabiongrpc has, and
// when to come back.
func (x *refusal) details(after string) []detail {
	reason, domain := x.reason, "policy.gabion"
	if x.domain != "" { // as package grpcidem has it
		reason, domain = strings.ToUpper(reason), x.domain
	}
	info := field(field(nil, 1, []byte(reason)), 2, []byte(domain))
	for _, pair := range [][2]string{{"effect", x.effect()}, {"attempts", strconv.Itoa(x.attempts)}} {
		info = field(info, 3, field(field(nil, 1, []byte(pair[0])), 2, []byte(pair[1])))
	}
	all := []detail{{"google.rpc.ErrorInfo", info}}
	if s, err := strconv.ParseUint(after, 10, 31); err == nil && s > 0 {
		all = append(all, detail{"google.rpc.RetryInfo", field(nil, 1, number(nil, 1, s))})
	}
	return all
}

// trailers writes the status as gRPC has it.
func (s *callStatus) trailers(h http.Header, dontRetry bool) {
	all := field(number(nil, 1, uint64(s.code)), 2, []byte(s.message))
	for _, d := range s.details {
		all = field(all, 3, field(field(nil, 1, []byte("type.googleapis.com/"+d.name)), 2, d.value))
	}
	h.Set("Grpc-Status", strconv.Itoa(int(s.code)))
	h.Set("Grpc-Message", strings.ReplaceAll(url.QueryEscape(s.message), "+", "%20"))
	h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(all))
	if dontRetry {
		h.Set("Grpc-Retry-Pushback-Ms", "-1")
	}
}

// json writes the status as Connect has it.
func (s *callStatus) json() []byte {
	type item struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	}
	code := strings.ToLower(s.code.String())
	if s.code == grpccode.Cancelled {
		code = "canceled"
	}
	all := make([]item, len(s.details))
	for i, d := range s.details {
		all[i] = item{d.name, base64.RawStdEncoding.EncodeToString(d.value)}
	}
	text, _ := json.Marshal(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Details []item `json:"details"`
	}{code, s.message, all})
	return text
}

// field appends a field of bytes as protocol buffers have it.
func field(to []byte, n uint64, value []byte) []byte {
	to = binary.AppendUvarint(to, n<<3|2)
	to = binary.AppendUvarint(to, uint64(len(value)))
	return append(to, value...)
}

// number appends a field that is a number.
func number(to []byte, n, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(to, n<<3), value)
}

// envelope puts flags and a length before a message of a stream.
func envelope(flags byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message))), message...)
}
