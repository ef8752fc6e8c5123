package telemetry

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion/gabionproxy"
)

// The attributes, by the semantic conventions of HTTP. Queries, headers and bodies may hold secrets: a query is left out.
const (
	keyMethod    = attribute.Key("http.request.method")
	keyStatus    = attribute.Key("http.response.status_code")
	keyError     = attribute.Key("error.type")
	keyScheme    = attribute.Key("url.scheme")
	keyPath      = attribute.Key("url.path")
	keyURL       = attribute.Key("url.full")
	keyServer    = attribute.Key("server.address")
	keyPort      = attribute.Key("server.port")
	keyClient    = attribute.Key("client.address")
	keyProtocol  = attribute.Key("network.protocol.version")
	keyUserAgent = attribute.Key("user_agent.original")
	keyAttempts  = attribute.Key("gabion.attempts")
	keyReason    = attribute.Key("gabion.reason")
)

// methods are those that have a name of their own: others, which a client may make up, are told as one.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
	http.MethodPatch, "QUERY",
}

// method returns the method as an attribute, and the name of its span.
func method(r *http.Request) (told, span string) {
	if slices.Contains(methods, r.Method) {
		return r.Method, r.Method
	}
	return "_OTHER", "HTTP"
}

// Serving implements gabionproxy.Telemetry: it continues the client's trace with a span of the whole request.
func (t *Telemetry) Serving(r *http.Request) (context.Context, func(gabionproxy.Answer)) {
	ctx, begun := r.Context(), time.Now()
	told, name := method(r)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	span := trace.SpanFromContext(ctx)
	if t.tracer != nil {
		ctx = t.headers.Extract(ctx, propagation.HeaderCarrier(r.Header))
		ctx, span = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
		if span.IsRecording() {
			span.SetAttributes(asked(r, told, scheme)...)
		}
	}
	calls := strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
	return ctx, func(a gabionproxy.Answer) {
		why := failure(a, calls)
		if span.IsRecording() {
			answered(span, a, why)
		}
		span.End()
		if t.took != nil {
			as := []attribute.KeyValue{keyMethod.String(told), keyScheme.String(scheme)}
			if a.Status != 0 {
				as = append(as, keyStatus.Int(a.Status))
			}
			if why != "" {
				as = append(as, keyError.String(why))
			}
			t.took.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(as...))
		}
	}
}

// asked are the attributes of a client's request.
func asked(r *http.Request, told, scheme string) []attribute.KeyValue {
	as := make([]attribute.KeyValue, 0, 12)
	as = append(as, keyMethod.String(told), keyScheme.String(scheme), keyProtocol.String(version(r.ProtoMajor, r.ProtoMinor)))
	if r.Method != http.MethodConnect {
		as = append(as, keyPath.String(r.URL.EscapedPath())) // in which all is ASCII
	}
	as = append(as, at(r.Host)...)
	if client, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		as = append(as, keyClient.String(client))
	}
	if agent := r.Header.Get("User-Agent"); agent != "" {
		as = append(as, keyUserAgent.String(strings.ToValidUTF8(agent, "?")))
	}
	return as
}

// at are the attributes of a server.
func at(host string) []attribute.KeyValue {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return []attribute.KeyValue{keyServer.String(strings.Trim(host, "[]"))}
	}
	as := []attribute.KeyValue{keyServer.String(name)}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		as = append(as, keyPort.Int(int(n)))
	}
	return as
}

// version is that of HTTP, as the conventions write it.
func version(major, minor int) string {
	if major >= 2 {
		return strconv.Itoa(major)
	}
	return strconv.Itoa(major) + "." + strconv.Itoa(minor)
}

// failure is why a request was no success for the proxy: empty for one, and for what is the client's own fault. Calls of
// gRPC that are refused have the status 200.
func failure(a gabionproxy.Answer, calls bool) string {
	switch {
	case a.Cut:
		return "cut"
	case a.Status < http.StatusInternalServerError && !(calls && a.Attempts == "0"):
		return ""
	case a.Reason != "":
		return a.Reason
	}
	return strconv.Itoa(a.Status)
}

// answered tells of the answer.
func answered(span trace.Span, a gabionproxy.Answer, why string) {
	if a.Status != 0 {
		span.SetAttributes(keyStatus.Int(a.Status))
	}
	if n, err := strconv.Atoi(a.Attempts); err == nil {
		span.SetAttributes(keyAttempts.Int(n))
	}
	if a.Reason != "" {
		span.SetAttributes(keyReason.String(a.Reason))
	}
	if why != "" {
		span.SetAttributes(keyError.String(why))
		span.SetStatus(codes.Error, why)
	}
}

// Sending implements gabionproxy.Telemetry. An attempt has its span from gabionotel, and gets the attributes of HTTP here. A
// request to the program behind an ingress gets a span.
func (t *Telemetry) Sending(dependency string, r *http.Request) (*http.Request, func(*http.Response, error)) {
	if t.tracer == nil {
		return r, nil
	}
	ctx := r.Context()
	told, name := method(r)
	span := trace.SpanFromContext(ctx)
	own := dependency == ""
	if own {
		ctx, span = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	}
	out := t.written(ctx, r)
	if !span.IsRecording() {
		return out, nil
	}
	span.SetAttributes(keyMethod.String(told), keyURL.String(r.URL.Scheme+"://"+r.URL.Host+r.URL.EscapedPath()))
	span.SetAttributes(at(r.URL.Host)...)
	return out, func(resp *http.Response, err error) {
		if err == nil {
			span.SetAttributes(keyProtocol.String(version(resp.ProtoMajor, resp.ProtoMinor)))
		}
		if !own {
			return // what came of it is gabionotel's to say
		}
		switch {
		case err != nil:
			span.SetAttributes(keyError.String("no_answer"))
			span.SetStatus(codes.Error, "no_answer")
		default:
			span.SetAttributes(keyStatus.Int(resp.StatusCode))
			if resp.StatusCode >= http.StatusBadRequest {
				why := strconv.Itoa(resp.StatusCode)
				span.SetAttributes(keyError.String(why))
				span.SetStatus(codes.Error, why)
			}
		}
		span.End()
	}
}

// written returns the request with the headers of the span in ctx, in place of those that the client sent.
func (t *Telemetry) written(ctx context.Context, r *http.Request) *http.Request {
	lines := propagation.HeaderCarrier{}
	t.headers.Inject(ctx, lines)
	out := r.WithContext(ctx)
	if len(lines) == 0 {
		return out
	}
	out.Header = maps.Clone(r.Header)
	for _, name := range t.headers.Fields() {
		out.Header.Del(name)
	}
	maps.Copy(out.Header, lines)
	return out
}
