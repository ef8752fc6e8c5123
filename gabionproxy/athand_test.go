package gabionproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A short body goes on as it is, whether it comes with its headers, after them, or in part; and what follows it is the next request.
func TestAShortBodyGoesOnHoweverItComes(t *testing.T) {
	came := make(chan struct{}, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		b, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Method, string(b), err)
	}))
	defer server.Close()
	r := start(t, one(server.URL, ""))
	body := strings.Repeat("abcdefgh", 100)
	for _, long := range []string{body, body + body + body[:448], body + body + body} { // 800, 2048 and 2400 bytes
		head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n", len(long))
		for name, parts := range map[string][]string{
			"with its headers":              {head + long},
			"after them":                    {head, long},
			"in part":                       {head + long[:300], long[300:]},
			"with the next request":         {head + long + "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
			"in part, and the next request": {head + long[:300], long[300:] + "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
		} {
			t.Run(fmt.Sprint(len(long), " bytes ", name), func(t *testing.T) {
				c, err := net.Dial("tcp", r.proxy.Addr("127.0.0.1:0").String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				for i, part := range parts {
					if i > 0 {
						select { // the server has the headers, and waits for the rest
						case <-came:
						case <-time.After(10 * time.Second):
							t.Fatal("the headers wait for the body")
						}
					}
					io.WriteString(c, part)
				}
				in := bufio.NewReader(c)
				want := []string{"POST" + long + "<nil>"}
				if strings.Contains(name, "next") {
					want = append(want, "GET<nil>")
				}
				for _, want := range want {
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					if b, err := io.ReadAll(resp.Body); string(b) != want || err != nil {
						t.Errorf("the server says %d bytes for %d: %.80q, %v", len(b), len(want), b, err)
					}
				}
				for len(came) > 0 {
					<-came
				}
			})
		}
	}
}
