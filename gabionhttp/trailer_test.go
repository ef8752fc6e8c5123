package gabionhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// lateTrailers is a body whose end comes when the test says so, and writes the trailers of
// the answer that it belongs to, as net/http does.
type lateTrailers struct {
	io.Reader
	of  *http.Response
	end chan struct{}
}

func (b *lateTrailers) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		<-b.end
		b.of.Trailer.Set("Grpc-Status", "0")
	}
	return n, err
}

func (b *lateTrailers) Close() error { return nil }

// Trailers belong to the body's reader. gabion reads ahead to see how the call ended, but does
// not write trailers while the caller looks at the answer.
func TestTrailersComeWithTheEndOfTheBody(t *testing.T) {
	for fact, kind := range map[string]struct {
		content string
		by      func(*http.Response, error) policy.Outcome
	}{
		"of gRPC": {content: "application/grpc"},
		"looked at by a classifier": {content: "text/plain", by: func(r *http.Response, err error) policy.Outcome {
			if r != nil {
				io.ReadAll(r.Body)
			}
			return policy.Outcome{}
		}},
	} {
		t.Run(fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				base := roundTripper(func(r *http.Request) (*http.Response, error) {
					resp := &http.Response{
						StatusCode: 200, ProtoMajor: 2, ContentLength: -1, Request: r,
						Header:  http.Header{"Content-Type": {kind.content}},
						Trailer: http.Header{"Grpc-Status": nil},
					}
					resp.Body = &lateTrailers{strings.NewReader("1234"), resp, end}
					return resp, nil
				})
				var options []gabion.Option
				if kind.by != nil {
					options = append(options, gabion.WithClassify(kind.by))
				}
				tr := &gabionhttp.Transport{Base: base, Dependency: gabion.New("shop", policy.Policy{}, options...)}
				req, err := http.NewRequestWithContext(context.Background(), "POST", "http://shop/", strings.NewReader("x"))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				close(end)
				if got := resp.Trailer["Grpc-Status"]; got != nil { // the race detector looks here, too
					t.Errorf("before the body was read: %q", got)
				}
				synctest.Wait()
				if got := resp.Trailer["Grpc-Status"]; got != nil {
					t.Errorf("when gabion had read the body: %q", got)
				}
				if b, err := io.ReadAll(resp.Body); string(b) != "1234" || err != nil {
					t.Errorf("%q, %v", b, err)
				}
				if got := resp.Trailer.Get("Grpc-Status"); got != "0" {
					t.Errorf("after the end of the body: %q", got)
				}
			})
		})
	}
}
