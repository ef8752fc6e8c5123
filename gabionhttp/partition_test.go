package gabionhttp_test

import (
	"net/http"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// One server is one partition, however its address is written.
func TestOneServerIsOnePartition(t *testing.T) {
	for want, urls := range map[string][]string{
		"shop.test":      {"http://shop.test", "http://SHOP.Test", "http://shop.test.", "http://shop.test:80", "https://shop.test:443/x", "http://Shop.test.:80", "http://shop.test:"},
		"shop.test:443":  {"http://shop.test:443"},
		"shop.test:8080": {"http://shop.test:8080", "http://shop.test.:8080", "http://SHOP.test:8080"},
		"[::1]":          {"http://[::1]", "http://[::1]:80", "https://[::1]:443"},
		"[::1]:8080":     {"http://[::1]:8080"},
		"[fe80::a]":      {"http://[FE80::A]"},
		"10.0.0.1":       {"http://10.0.0.1:80"},
	} {
		for _, url := range urls {
			var got string
			d := gabion.New("shop", policy.Policy{}, gabion.WithObserver(observer(func(e gabion.Event) { got = e.Partition })))
			tr := &gabionhttp.Transport{Dependency: d, Base: roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 200, ""), nil })}
			resp, err := tr.RoundTrip(request(t, "GET", url, ""))
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			if got != want {
				t.Errorf("%s is the partition %q, want %q", url, got, want)
			}
		}
	}
}

// Clients of a proxy may invent methods: these share one name.
func TestInventedMethodsShareAName(t *testing.T) {
	names := map[string]bool{}
	d := gabion.New("shop", policy.Policy{}, gabion.WithObserver(observer(func(e gabion.Event) { names[e.Operation] = true })))
	tr := &gabionhttp.Transport{Dependency: d, Base: roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 200, ""), nil })}
	for _, method := range []string{"", "GET", "PATCH", "get", "MKCOL", "X1", "X2"} {
		req := request(t, "GET", "http://shop.test", "")
		req.Method = method
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
	}
	if len(names) != 3 || !names["GET"] || !names["PATCH"] || !names["OTHER"] {
		t.Errorf("operations %v", names)
	}
}
