package gabionhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A body may come from work that was cancelled: the caller gets that error, and not that of
// another request.
func TestAReadersOwnCancelIsTheReaders(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	c, _ := client(t, once(), base(t, s))
	source := errors.New("the source was given up")
	r, w := io.Pipe()
	go func() {
		io.WriteString(w, "some")
		w.CloseWithError(fmt.Errorf("%w: %w", source, context.Canceled))
	}()
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Do(req); !errors.Is(err, source) || strings.Contains(err.Error(), "another request") {
		t.Errorf("%v, want the reader's own error", err)
	}
}

// What another call of gabion's below gave up stays what that layer said: final.
func TestWhatALayerBelowGaveUpIsNotRepeated(t *testing.T) {
	sent := 0
	c, _ := client(t, eager(), roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return nil, &gabion.Error{Dependency: "tokens", Reason: policy.Canceled, Err: context.Canceled}
	}))
	_, err := c.Get("http://shop.test/")
	if sent != 1 {
		t.Errorf("%d attempts: %v", sent, err)
	}
}
