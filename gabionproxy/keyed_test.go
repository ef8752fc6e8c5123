package gabionproxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Programs read a path in many ways. None of them may bring a request without a key to a route that has keys.
func TestNoSpellingGoesAroundTheKey(t *testing.T) {
	var ran atomic.Int64
	program := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran.Add(1) }))
	defer program.Close()
	at := strings.TrimPrefix(before(t, program.URL, "idempotency: {store: gabion.db, routes: [POST /orders, \"PUT /Shops/{id}/orders\", \"PUT /shops/{name}/orders\", \"PUT /a/{ID}/b/{id}\", GET /both, POST /both]}"), "http://")
	for _, c := range []struct {
		line, header string
		refused      bool
	}{
		{"POST /orders", "", true},
		{"POST /Orders", "", true},
		{"POST /ORDERS/", "", true},
		{"POST /orders;jsessionid=1", "", true},
		{"POST /;a=b/orders", "", true},
		{"POST //orders", "", true},
		{"POST /x/../orders", "", true},
		{"POST /x/%2e%2e/orders", "", true},
		{"POST /%2Forders", "", true},
		{"POST /orders%2F", "", true},
		{"POST /%5Corders", "", true},
		{"POST /%256frders", "", true},
		{"POST /orders.json", "", true},
		{"POST /orders.", "", true},
		{"POST /orders%20", "", true},
		{"POST /orders%0a", "", true},
		{"POST /orders%00.txt", "", true},
		{"POST http://h/Orders", "", true},
		{"post /orders", "", true},
		{"GET /orders", "X-HTTP-Method-Override: post", true},
		{"POST /shops/1/orders", "X-HTTP-Method-Override: PUT", true},
		{"PUT /shops/1/orders", "", true},
		{"PUT /shops/1/Orders;x", "", true},
		{"PUT /shops/1%2F2/orders", "", true},
		{"POST /orders.a.json", "", true},
		{"POST /orders%3Fx", "", true},
		{"POST /order\u017f", "", true},
		{"POST /index.php/orders", "", true},
		{"POST /public/Index.php/orders.json", "", true},
		{"PUT /shops/1%2F2/orders/", "", true},
		{"PUT /SHOPS/1%2F2/Orders", "", true},
		{"PUT /shops/1%2F2/orders.json", "", true},
		{"PUT /x/../shops/1%2F2/orders/", "", true},
		{"PUT /shops/%20/orders/", "", true},
		{"PUT /shops/;1/Orders", "", true},
		{"PUT /shops/../orders/", "", true},
		{"PUT /shops/%2e%2e/orders", "", true},
		{"POST /shops/1/orders", "X-HTTP-Method-Override: PUT, GET", true},
		{"POST /shops/1/orders", "X_HTTP_METHOD_OVERRIDE: PUT", true},
		{"POST /shops/1/orders?_method=put", "", true},
		{"POST /shops/1/orders?a=%zz&_method=PUT", "", true},
		{"POST /shops/1/orders?a=1;%2emethod=%50UT", "", true},
		{"OPTIONS /orders", "Access-Control-Request-Method: POST", false},
		{"HEAD /orders", "", false},
		{"HEAD /both", "", false},
		{"HEAD /both", "X-HTTP-Method-Override: POST", true},
		{"POST /orders?_method=delete", "", true},
		{"POST /shops/1/orders?_method=delete", "", false},
		{"POST /x.php", "", false},
		{"GET /orders", "", false},
		{"POST /orders/1", "", false},
		{"POST /order", "", false},
		{"POST /", "", false},
		{"POST /shops/1/orders", "", false},
		{"PUT /shops/orders", "", false},
	} {
		t.Run(c.line+" "+c.header, func(t *testing.T) {
			ran.Store(0)
			header := c.header
			if header != "" {
				header += "\r\n"
			}
			code, body := asked(t, at, c.line+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"+header+"Content-Length: 1\r\n\r\nx")
			if (code == 400) != c.refused || (ran.Load() == 0) != c.refused {
				t.Errorf("%d %.200s, and the program ran %d times", code, body, ran.Load())
			}
		})
	}
}

func TestNoHeaderLeadsToAnotherPath(t *testing.T) {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("X-Original-URL")+r.Header.Get("X-Rewrite-URL")+strings.Join(r.Header["X_rewrite_url"], ""))
	}))
	defer program.Close()
	req, _ := http.NewRequest("POST", before(t, program.URL, orders)+"/other", nil)
	req.Header.Set("X-Original-URL", "/orders")
	req.Header.Set("X-Rewrite-URL", "/orders")
	req.Header.Set("X_REWRITE_URL", "/orders")
	if code, body := answer(t, req); code != 200 || body != "" {
		t.Error(code, body)
	}
}
