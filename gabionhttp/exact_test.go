package gabionhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// What callers of http.Client ask of its errors they still can (ADR 35).
func TestErrorsOfHTTPClientAreStillThere(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	t.Run("a server that speaks HTTP where TLS was meant", func(t *testing.T) {
		s := serve(t, func(http.ResponseWriter, *http.Request) {})
		c, _ := client(t, eager(), base(t, s))
		_, err := c.Get(strings.Replace(s.URL, "http:", "https:", 1))
		if !errors.Is(err, http.ErrSchemeMismatch) || gabion.EffectOf(err) != policy.NoEffect {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("Client.Timeout", func(t *testing.T) {
		s := serve(t, hang)
		c, _ := client(t, eager(), base(t, s))
		c.Timeout = 20 * time.Millisecond
		_, err := c.Get(s.URL)
		ue, ok := err.(*url.Error)
		if !ok || !ue.Timeout() || !strings.Contains(err.Error(), "(Client.Timeout exceeded while awaiting headers)") {
			t.Errorf("ended with %v", err)
		}
	})
	for _, p := range []func(*policy.Policy){func(*policy.Policy) {}, func(p *policy.Policy) { p.Retry.Attempts = 1 }} {
		t.Run("the caller's own end", func(t *testing.T) {
			s := serve(t, hang)
			c, _ := client(t, with(eager(), p), base(t, s))
			for want, end := range map[error]func() (context.Context, context.CancelFunc){
				context.DeadlineExceeded: func() (context.Context, context.CancelFunc) {
					return context.WithTimeout(t.Context(), 20*time.Millisecond)
				},
				context.Canceled: func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(20*time.Millisecond, cancel)
					return ctx, cancel
				},
			} {
				ctx, cancel := end()
				_, err := c.Do(request(t, "GET", s.URL, "").WithContext(ctx))
				cancel()
				ue, ok := err.(*url.Error)
				if !ok || !errors.Is(err, want) || ue.Timeout() != (want == context.DeadlineExceeded) || gabion.ReasonOf(err) == 0 {
					t.Errorf("%v: ended with %v, timeout %v", want, err, ok && ue.Timeout())
				}
			}
		})
	}
}

// An answer that can have no body reads as an empty one, also where HTTP/2 has yet to say
// that it ends.
func TestAnAnswerWithoutABodyReadsAsEmpty(t *testing.T) {
	for name, begin := range map[string]func(testing.TB, http.HandlerFunc) *site{"HTTP/1": serve, "HTTP/2": serveH2} {
		for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
			read := make(chan struct{})
			s := begin(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				w.(http.Flusher).Flush()
				<-read
			})
			c, _ := client(t, eager(), base(t, s))
			resp, err := c.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if close(read); err != nil || len(text) > 0 || resp.StatusCode != status {
				t.Errorf("%s, %d: %q, %v", name, status, text, err)
			}
			resp.Body.Close()
		}
	}
}
