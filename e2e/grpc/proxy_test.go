package grpc

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// A proxy whose Transport is gabion's repeats what is safe to repeat, passes on what came of
// it, and tells its clients not to do the same again.
func TestAProxyPassesOnWhatItRepeated(t *testing.T) {
	s := new(service)
	for server, target := range s.everywhere(t) {
		hc, d := through(t, eager(3))
		proxy := serveConnect(t, proxyTo(t, target, hc.Transport))
		plain := &http.Client{Transport: &http.Transport{Protocols: cleartext()}}
		t.Cleanup(plain.CloseIdleConnections)
		for name, options := range protocols {
			if server != "connect-go" && name != "gRPC" {
				continue
			}
			t.Run(server+", "+name, func(t *testing.T) {
				s.after.Store(20)
				defer s.after.Store(0)
				s.code.Store(0)
				for _, streams := range []bool{false, true} {
					if code := call(t, plain, proxy, streams, options); code != 0 {
						t.Errorf("stream %v: %v", streams, code)
					}
				}
				s.code.Store(uint32(codes.Unavailable))
				s.calls.Store(0)
				before := failures(d)
				if code := call(t, plain, proxy, false, options); code != connect.CodeUnavailable {
					t.Error(code)
				}
				if n, calls := failures(d)-before, s.calls.Load(); n != 3 || calls != 3 {
					t.Errorf("%d failures, %d calls", n, calls)
				}

				// A client of grpc-go with retries of its own hears it by the pushback.
				s.calls.Store(0)
				_, err := pb.NewTestServiceClient(dial(t, proxy, retries)).UnaryCall(t.Context(), &pb.SimpleRequest{})
				if calls := s.calls.Load(); calls != 3 || status.Code(err) != codes.Unavailable {
					t.Errorf("%d calls, %v", calls, err)
				}

				// Gabion before the proxy hears that it was repeated there.
				s.calls.Store(0)
				above, da := through(t, eager(3))
				if code := call(t, above, proxy, false, options); code != connect.CodeUnavailable {
					t.Error(code)
				}
				if calls := s.calls.Load(); calls != 3 {
					t.Errorf("%d calls through two layers", calls)
				}
				nothingHeld(t, d)
				nothingHeld(t, da)
			})
		}
	}
}

// retries is what a service config can ask of grpc-go.
var retries = grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
	"initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`)

func proxyTo(t *testing.T, target string, rt http.RoundTripper) http.Handler {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	// Answers without a length are flushed as they come anyway. With a FlushInterval, an answer
	// that is nothing but a header can lose its end: a ReverseProxy flushes it from a goroutine,
	// and gRPC then misses the trailers, which are in that header.
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: rt}
}
