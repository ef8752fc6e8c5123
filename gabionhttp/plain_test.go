package gabionhttp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Work that returns the answer of its own dependency's Transport without an error has come to what that answer says.
func TestWorkThatReturnsAnAnswerComesToWhatItSays(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	d := gabion.New("answers", policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 1}})
	client := &http.Client{Transport: &Transport{Dependency: d}}
	resp, _ := gabion.Do(t.Context(), d, func(ctx context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return nil, err
		}
		return client.Do(req)
	})
	if resp != nil {
		resp.Body.Close()
	}
	if got := d.Stats().Totals; got.Calls != 1 || got.Succeeded != 0 {
		t.Errorf("%d of %d calls succeeded", got.Succeeded, got.Calls)
	}
}
