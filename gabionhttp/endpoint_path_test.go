package gabionhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// What a request asks for stays below the path of its endpoint, or nothing is sent.
func TestARequestDoesNotLeaveTheEndpointsPath(t *testing.T) {
	for _, c := range []struct{ endpoint, asked, sent string }{
		{"https://eu.example.com/v1", "http://any/a/../b", "https://eu.example.com/v1/a/../b"},
		{"https://eu.example.com/v1", "http://any/a/..", "https://eu.example.com/v1/a/.."},
		{"https://eu.example.com/v1", "http://any/..a/b..", "https://eu.example.com/v1/..a/b.."},
		{"https://eu.example.com/v1", "http://any//other.example/x", "https://eu.example.com/v1//other.example/x"},
		{"https://eu.example.com", "http://any//other.example/x", "https://eu.example.com//other.example/x"},
		{"https://eu.example.com/a%2F", "http://any/x", "https://eu.example.com/a%2F/x"},
		{"https://eu.example.com/v1", "http://any/%2Fx", "https://eu.example.com/v1/%2Fx"},
		{"https://eu.example.com/v1", "http://any/../admin", ""},
		{"https://eu.example.com/v1", "http://any/%2e%2e/admin", ""},
		{"https://eu.example.com/v1", "http://any/.%2E/admin", ""},
		{"https://eu.example.com/v1", "http://any/a/../../admin", ""},
		{"https://eu.example.com/v1", "http://any/a//../../admin", ""}, // above, once slashes are merged
		{"https://eu.example.com/v1", "http://any/a%2fb/../../admin", ""},
		{"https://eu.example.com/v1", "http://any/..%2fadmin", ""},
		{"https://eu.example.com/v1", "http://any/..%5cadmin", ""},
		{"https://eu.example.com/v1", "http://any/..;x/admin", ""},
		{"https://eu.example.com/v1", "http://any/./../admin", ""},
		{"https://eu.example.com/v1", "http://any/;x/../admin", ""},
		{"https://eu.example.com", "http://any/../admin", ""}, // the same everywhere, not only while a backup is in use
		{"https://eu.example.com/v1", "http:opaque", ""},
	} {
		base := new(sentTo)
		d := gabion.New("payments", endpointsAt(policy.EndpointsEqual, c.endpoint))
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.asked, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&gabionhttp.Transport{Dependency: d, Base: base}).RoundTrip(req)
		if base.url != c.sent || (err == nil) != (c.sent != "") {
			t.Errorf("%s at %s: sent to %q, %v", c.asked, c.endpoint, base.url, err)
		}
		var why *gabion.Error
		if err != nil && (!errors.As(err, &why) || why.Effect != policy.NoEffect || why.Attempts != 1) {
			t.Errorf("%s at %s: %+v", c.asked, c.endpoint, why)
		}
		if st := d.Stats().Endpoints[0]; st.Failed != 0 {
			t.Errorf("%s: counts as a failure of the endpoint", c.asked)
		}
	}
}

// An endpoint is a scheme, a host and a path. A redirect to another endpoint of the same host belongs to that one, and its key stays behind.
func TestRedirectsBetweenEndpointsOfOneHost(t *testing.T) {
	var at []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at = append(at, fmt.Sprintf("%s %s %s", r.Method, r.URL.EscapedPath(), r.Header.Get("Idempotency-Key")))
		if to := r.Header.Get("To"); strings.HasSuffix(r.URL.Path, "/old") {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}))
	defer s.Close()
	for _, c := range []struct {
		method, to string
		shared     bool
		want       []string // what the server saw after the first request
		counted    string   // the endpoint that the last request counts for
		refused    bool
	}{
		{"POST", "new", false, []string{"POST /pay/new k"}, "a", false},
		{"POST", "/pay/new", false, []string{"POST /pay/new k"}, "a", false},
		{"POST", "/pay", false, []string{"POST /pay k"}, "a", false},
		{"POST", "/pay/eu/new", false, nil, "", true}, // the longer path is another's
		{"POST", "/other/new", false, nil, "", true},
		{"POST", "/payments/new", false, nil, "", true}, // no endpoint's, and a name that only begins like one
		{"POST", "/pay/%2e%2e/other/new", false, nil, "", true},
		{"POST", "/pay//eu/new", false, nil, "", true}, // servers differ about these
		{"POST", "/pay/%65u/new", false, nil, "", true},
		{"POST", "/pay%2feu/new", false, nil, "", true},
		{"POST", "/pay/eu;v=1/new", false, nil, "", true},
		{"POST", "/pay/%2e/eu/new", false, nil, "", true},
		{"POST", "/pay/n%65w", false, []string{"POST /pay/n%65w k"}, "a", false}, // and not about this one
		{"GET", "/pay/%65u/new", false, []string{"GET /pay/%65u/new "}, "", false},
		{"POST", "/pay/eu/new", true, []string{"POST /pay/eu/new k"}, "b", false},
		{"GET", "/pay/eu/new", false, []string{"GET /pay/eu/new "}, "b", false}, // a read needs no key
		{"GET", "/other/new", false, []string{"GET /other/new "}, "d", false},
		{"GET", "/other/eu/new", false, []string{"GET /other/eu/new "}, "c", false},
		{"GET", "/login", false, []string{"GET /login "}, "", false},
	} {
		at = nil
		p := endpointsAt(policy.EndpointsOrdered, s.URL+"/pay", s.URL+"/pay/eu", s.URL+"/other/eu", s.URL+"/other/")
		p.Endpoints.SharedKeys = c.shared
		d := gabion.New("payments", p)
		req, _ := http.NewRequestWithContext(t.Context(), c.method, "http://payments/old", strings.NewReader("x"))
		req.Header.Set("To", c.to)
		req.Header.Set("Idempotency-Key", "k")
		resp, err := (&http.Client{Transport: &gabionhttp.Transport{Dependency: d}}).Do(req)
		if err == nil {
			resp.Body.Close()
		}
		if errors.Is(err, gabionhttp.ErrKeyRedirected) != c.refused || !c.refused && err != nil || !slices.Equal(at[1:], c.want) {
			t.Errorf("%s to %s: %q, %v", c.method, c.to, at, err)
		}
		counted := ""
		for i, e := range d.Stats().Endpoints {
			if n := e.Attempts; n == 1 && i > 0 || n == 2 {
				counted = e.Endpoint.Name
			}
		}
		if counted != c.counted {
			t.Errorf("%s to %s counts for %q", c.method, c.to, counted)
		}
	}
}

// A relative Location is against what was asked, also where only the scheme is another than the caller's.
func TestARedirectKeepsTheEndpointsScheme(t *testing.T) {
	var at []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at = append(at, r.URL.Path); r.URL.Path == "/old" {
			http.Redirect(w, r, "new", http.StatusFound)
		}
	}))
	defer s.Close()
	d := gabion.New("payments", endpointsAt(policy.EndpointsEqual, s.URL))
	c := &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: s.Client().Transport}}
	resp, err := c.Get("http://" + strings.TrimPrefix(s.URL, "https://") + "/old")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if !slices.Equal(at, []string{"/old", "/new"}) {
		t.Errorf("asked %q", at)
	}
}
