package gabionhttp_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// A priority goes from hop to hop by the context, and only to hosts that are trusted with it.
func TestWhoLearnsAPriority(t *testing.T) {
	for _, c := range []struct {
		fact  string
		trust policy.Trust
		ctx   policy.Priority
		came  []string // in the header of the request, as a proxy passes it on
		want  []string
	}{
		{"an internal dependency learns it", policy.Internal, policy.PriorityLow, nil, []string{"low"}},
		{"high as well", policy.Internal, policy.PriorityHigh, nil, []string{"high"}},
		{"a vendor does not", policy.External, policy.PriorityHigh, nil, nil},
		{"a normal one is not written", policy.Internal, policy.PriorityNormal, nil, nil},
		{"what is out of bounds is brought within", policy.Internal, 77, nil, []string{"high"}},
		{"what a stranger wrote goes no further", policy.Internal, policy.PriorityNormal, []string{"high"}, nil},
		{"to a vendor neither", policy.External, policy.PriorityNormal, []string{"low"}, nil},
		{"the context counts, not the header", policy.Internal, policy.PriorityLow, []string{"high", "high"}, []string{"low"}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var got []string
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				got = r.Header[gabionhttp.HeaderPriority]
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
			})
			tr := &gabionhttp.Transport{Dependency: gabion.New("next", policy.Policy{Trust: c.trust}), Base: base}
			r, _ := http.NewRequestWithContext(gabion.ContextWithPriority(context.Background(), c.ctx), "GET", "http://next/", nil)
			if c.came != nil {
				r.Header[gabionhttp.HeaderPriority] = c.came
			}
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if !slices.Equal(got, c.want) {
				t.Errorf("sent %q, want %q", got, c.want)
			}
		})
	}
}
