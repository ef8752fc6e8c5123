package gabionproxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOnlyTrustedPeersSayWhomTheySpeakFor(t *testing.T) {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		fmt.Fprint(w, h["X-Forwarded-For"], h["X-Forwarded-Proto"], h["X-Forwarded-Host"], h["X-Forwarded-Port"], h["X-Real-Ip"], h["Forwarded"], h["X_forwarded_proto"])
	}))
	defer program.Close()
	for _, c := range []struct{ fact, trusted, proto, want string }{
		{"none", "", "https", "[127.0.0.1] [http] [shop] [] [] [] []"},
		{"others", ", trusted: [10.0.0.0/8]", "https", "[127.0.0.1] [http] [shop] [] [] [] []"},
		{"a network", ", trusted: [10.0.0.0/8, 127.0.0.0/8]", "https", "[1.1.1.1, 2.2.2.2, 127.0.0.1] [https] [shop.example] [8443] [3.3.3.3] [] []"},
		{"one address", ", trusted: [127.0.0.1]", "https", "[1.1.1.1, 2.2.2.2, 127.0.0.1] [https] [shop.example] [8443] [3.3.3.3] [] []"},
		{"one address as IPv6 has it", ", trusted: [\"::ffff:127.0.0.1\"]", "https", "[1.1.1.1, 2.2.2.2, 127.0.0.1] [https] [shop.example] [8443] [3.3.3.3] [] []"},
		{"a network as IPv6 has it", ", trusted: [\"::ffff:127.0.0.0/104\"]", "https", "[1.1.1.1, 2.2.2.2, 127.0.0.1] [https] [shop.example] [8443] [3.3.3.3] [] []"},
		{"all addresses of IPv6", ", trusted: [\"::/0\"]", "https", "[127.0.0.1] [http] [shop] [] [] [] []"},
		{"a word that is no scheme", ", trusted: [127.0.0.1]", "javascript", "[1.1.1.1, 2.2.2.2, 127.0.0.1] [http] [shop.example] [8443] [3.3.3.3] [] []"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			req, _ := http.NewRequest("GET", before(t, program.URL, "deadlines: true"+c.trusted), nil)
			req.Host = "shop"
			req.Header = http.Header{
				"X-Forwarded-For": {"1.1.1.1", "2.2.2.2"}, "X-Forwarded-Proto": {c.proto}, "X-Forwarded-Host": {"shop.example"}, "X-Forwarded-Port": {"8443"},
				"X-Real-Ip": {"3.3.3.3"}, "Forwarded": {"for=4.4.4.4"}, "X_forwarded_proto": {"https"},
			}
			if _, got := answer(t, req); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
