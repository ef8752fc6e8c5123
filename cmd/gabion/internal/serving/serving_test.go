package serving

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnAddressOpensInABrowserOfThisMachine(t *testing.T) {
	for _, tt := range []struct {
		at, url string
		open    bool
	}{
		{"127.0.0.1:80", "http://127.0.0.1:80/", false},
		{"[::1]:80", "http://[::1]:80/", false},
		{"0.0.0.0:80", "http://127.0.0.1:80/", true},
		{"[::]:80", "http://127.0.0.1:80/", true},
		{"192.0.2.7:80", "http://192.0.2.7:80/", true},
	} {
		at, err := net.ResolveTCPAddr("tcp", tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if url, open := reached(at); url != tt.url || open != tt.open {
			t.Errorf("%s: %s, open to others: %v", tt.at, url, open)
		}
	}
}

func TestAPortInUseIsSaid(t *testing.T) {
	l, url, open, err := Listen("127.0.0.1:0")
	if err != nil || open || url != "http://"+l.Addr().String()+"/" {
		t.Fatalf("%s, open %v, %v", url, open, err)
	}
	defer l.Close()
	if _, _, _, err := Listen(l.Addr().String()); err == nil || !strings.Contains(err.Error(), "another program has this port; port 0 takes one that is free") {
		t.Errorf("the port is in use: %v", err)
	}
}

// A site can make its name point to this machine; browsers then take the page for its.
// They leave out port 80.
func TestAPageIsForThisMachineOnly(t *testing.T) {
	page := Guard("http://127.0.0.1:1/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:1": 200, "127.0.0.1": 200, "localhost": 200, "localhost:1": 200, "[::1]": 200, "[::1]:1": 200, "192.0.2.7:1": 200,
		"evil.example": 403, "evil.example:80": 403, "": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if page.ServeHTTP(w, r); w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}
