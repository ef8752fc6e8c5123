package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
	"golang.org/x/net/http2"
)

// A server that carries out every request and then says that something was wrong with it,
// for which net/http sends the request again, on one connection after the other and
// without end. One call must not become a storm, and what is not safe to repeat must not
// be carried out twice.
func TestOneCallIsNotAStorm(t *testing.T) {
	const attempts = 3
	for _, end := range []struct {
		name   string
		act    act
		proves bool // that the request was not looked at
	}{
		{"PROTOCOL_ERROR", rstStream(http2.ErrCodeProtocol), false},
		{"GOAWAY(0) and the end", then(goAway(0, http2.ErrCodeNo), hangUp), true},
	} {
		for _, r := range []struct {
			name, method, key, body string
			safe                    bool
		}{
			{"POST", "POST", "", "charge", false},
			{"POST without a body", "POST", "", "", false},
			{"PATCH", "PATCH", "", "charge", false},
			{"POST with a key", "POST", "k", "charge", true},
			{"POST with a key and without a body", "POST", "k", "", true},
			{"PUT", "PUT", "", "charge", true},
			{"DELETE", "DELETE", "", "", true},
			{"GET", "GET", "", "", true},
			{"GET with a body", "GET", "", "charge", true},
		} {
			for _, overTLS := range []bool{true, false} {
				for _, warm := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%s/TLS %v/HTTP2 known %v", end.name, r.name, overTLS, warm), func(t *testing.T) {
						s, base := serveHTTP2(t, overTLS)
						broken := script{end.act, end.act, end.act, end.act, end.act, end.act, end.act, end.act, end.act, end.act}
						before := 0
						if warm {
							before = 1
							s.play(broken, append(script{ok}, broken...))
						} else {
							s.play(broken)
						}
						var events gabiontest.Recorder
						d := gabion.New("shop", policy.Policy{
							Timeout: policy.Timeout{Attempt: 20 * time.Second, Call: 30 * time.Second},
							Retry:   policy.Retry{Attempts: attempts, Backoff: backoff.Full(time.Millisecond, 2*time.Millisecond)},
							Breaker: policy.Breaker{Off: true, Window: time.Minute},
						}, gabion.WithObserver(&events))
						transport := &gabionhttp.Transport{Dependency: d, Base: base}
						call := func(method, key, text string) error {
							ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteHeaders: func() { s.wrote <- struct{}{} }})
							var body io.Reader
							if text != "" {
								body = strings.NewReader(text)
							}
							return carry(ctx, transport, s.url, method, key, body)
						}
						if warm {
							if err := call("POST", "", "hello"); err != nil {
								t.Fatal(err)
							}
						}
						err := call(r.method, r.key, r.body)
						arrived := int64(len(s.seen()) - before)
						most := int64(attempts * (1 + 2))
						if !r.safe && !end.proves {
							most = 1
						}
						if err == nil || arrived > most {
							t.Errorf("it was carried out %d times, want at most %d: %v", arrived, most, err)
						}
						if gabion.EffectOf(err) != policy.UnknownEffect && !end.proves {
							t.Errorf("it arrived, and the error says %v", err)
						}
						if hidden := arrived - int64(events.Load().Attempts-before); transport.Hidden() != hidden {
							t.Errorf("%d hidden re-sends were counted, and there were %d", transport.Hidden(), hidden)
						}
						gabiontest.NothingHeld(t, d)
					})
				}
			}
		}
	}
}

// carry makes one call and reads its answer.
func carry(ctx context.Context, rt http.RoundTripper, url, method, key string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
