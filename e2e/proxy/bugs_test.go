package proxy

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

// both runs a test behind an egress and before a program.
func both(t *testing.T, server http.Handler, test func(t *testing.T, at string)) {
	t.Helper()
	for side, file := range map[string]func(string) string{"egress": func(to string) string { return egress(to, quick) }, "ingress": ingress} {
		t.Run(side, func(t *testing.T) {
			s := httptest.NewServer(server)
			t.Cleanup(s.Close)
			test(t, front(t, file(s.URL)))
		})
	}
}

// Chunk sizes that leak into bodies: traefik/traefik#11507. Pieces of each size arrive as they were sent.
func TestChunkedAnswersArriveAsTheyWere(t *testing.T) {
	piece := strings.Repeat("0123456789abcdef", 1<<12)
	both(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for n := 1; n <= len(piece); n *= 3 {
			io.WriteString(w, piece[:n])
			w.(http.Flusher).Flush()
		}
	}), func(t *testing.T, at string) {
		resp, err := http.Get("http://" + at)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		want := ""
		for n := 1; n <= len(piece); n *= 3 {
			want += piece[:n]
		}
		if err != nil || string(got) != want {
			t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
		}
	})
}

// HEAD hangs: traefik/traefik#11407. An answer without a body ends at once, and its connection goes on.
func TestAnswersWithoutABodyEnd(t *testing.T) {
	both(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", "1000")
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.Header().Set("Etag", `"a"`)
			w.WriteHeader(http.StatusNotModified)
		case "/chunked":
			w.(http.Flusher).Flush()
		}
	}), func(t *testing.T, at string) {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		r := bufio.NewReader(conn)
		for _, line := range []string{"HEAD /length", "HEAD /chunked", "GET /204", "GET /304", "HEAD /"} {
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: h\r\n\r\n", line)
			method, _, _ := strings.Cut(line, " ")
			resp, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil || line == "HEAD /length" && resp.ContentLength != 1000 {
				t.Errorf("%s: a length of %d, %v", line, resp.ContentLength, err)
			}
		}
	})
}

// Error text that is appended to half an answer: traefik/traefik#13569. The client sees that it broke off, and
// nothing that the server did not say.
func TestHalfAnAnswerBreaksOff(t *testing.T) {
	for name, head := range map[string]string{"length": "Content-Length: 100\r\n", "chunked": "Transfer-Encoding: chunked\r\n"} {
		for side, file := range map[string]func(string) string{"egress": func(to string) string { return egress(to, quick) }, "ingress": ingress} {
			t.Run(name+"/"+side, func(t *testing.T) {
				body := "half of it"
				if name == "chunked" {
					body = "a\r\nhalf of it\r\n"
				}
				url := raw(t, func(conn net.Conn) {
					if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
						io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+head+"\r\n"+body)
					}
				})
				resp, err := http.Get("http://" + front(t, file(url)))
				if err != nil {
					return // it broke off before anything of it had gone out
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err == nil || !strings.HasPrefix("half of it", string(got)) {
					t.Errorf("%d %q, %v", resp.StatusCode, got, err)
				}
			})
		}
	}
}

// No 100-continue: a client that asks first sends its body when the server wants it, and not at all when it does not.
func TestExpectContinue(t *testing.T) {
	both(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	}), func(t *testing.T, at string) {
		for path, want := range map[string]string{"/yes": "HTTP/1.1 100 Continue", "/no": "HTTP/1.1 403 Forbidden"} {
			conn, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", path)
			r := bufio.NewReader(conn)
			if line, err := r.ReadString('\n'); strings.TrimSpace(line) != want {
				t.Errorf("%s: %q, %v", path, line, err)
				continue
			}
			if path == "/no" {
				continue
			}
			r.ReadString('\n')
			io.WriteString(conn, "hello")
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(resp.Body); string(got) != "hello" {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}

// Request trailers that are dropped: traefik/traefik#13384. Those of answers, too.
func TestTrailersTravelBothWays(t *testing.T) {
	both(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("X-End"))
		w.Header().Set("X-Sum", "7")
	}), func(t *testing.T, at string) {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n5\r\nhello\r\n0\r\nX-End: e\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != "hello e" || resp.Trailer.Get("X-Sum") != "7" {
			t.Errorf("%q with trailers %v, %v", got, resp.Trailer, err)
		}
	})
}

// Events arrive when they are sent: the second one is sent when the first one was read.
func TestEventsAreNotHeldBack(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/octet-stream"} {
		read := make(chan bool)
		both(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			<-read
			io.WriteString(w, "data: 2\n\n")
		}), func(t *testing.T, at string) {
			resp, err := http.Get("http://" + at)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			first := make([]byte, len("data: 1\n\n"))
			if _, err := io.ReadFull(resp.Body, first); err != nil {
				t.Fatal(err)
			}
			read <- true
			if rest, err := io.ReadAll(resp.Body); string(first)+string(rest) != "data: 1\n\ndata: 2\n\n" {
				t.Errorf("%q %q, %v", first, rest, err)
			}
		})
	}
}
