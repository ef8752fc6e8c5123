package h1_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/h1"
	"github.com/gabion-go/gabion/internal/testproxy"
)

// answers is a server that notes each request and answers with bytes.
type answers struct {
	says  string
	heard chan string
	close bool // after the answer
}

func (a *answers) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		select {
		case a.heard <- fmt.Sprint(req.Method, req.RequestURI, req.Host, req.Header, req.TransferEncoding, req.ContentLength, string(body), err, req.Trailer):
		default:
		}
		if _, err := io.WriteString(c, a.says); err != nil || a.close {
			return
		}
	}
}

// pipes dials servers that are goroutines.
func pipes(a *answers) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go a.serve(server)
		return client, nil
	}
}

// listens dials one that is behind sockets.
func listens(t testing.TB, serve func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	addr := testproxy.Serve(t, serve)
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
}

type dialer = func(context.Context, string, string) (net.Conn, error)

func ours(dial dialer) *h1.Transport {
	return &h1.Transport{Next: refuses{}, Dial: dial, MostIdle: 4}
}

func theirs(dial dialer) *http.Transport {
	return &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 4}
}

type refuses struct{}

func (refuses) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNext }

var errNext = fmt.Errorf("the other way")

// came is what came of a request.
func came(rt http.RoundTripper, req *http.Request) string {
	var early []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		early = append(early, fmt.Sprint(code, h))
		return nil
	}}
	resp, err := rt.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		return fmt.Sprint(early, " failed")
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return fmt.Sprint(early, resp.Status, resp.Header)
	}
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(early, resp.Proto, resp.Status, resp.Header, resp.ContentLength, resp.TransferEncoding, len(body), " ", string(body), err, resp.Trailer, resp.Close)
}

type asked struct {
	name string
	make func() *http.Request
}

func requests() []asked {
	make := func(method, path string, body string, change func(*http.Request)) func() *http.Request {
		return func() *http.Request {
			req, err := http.NewRequest(method, "http://server.example"+path, nil)
			if body != "" {
				req, err = http.NewRequest(method, "http://server.example"+path, strings.NewReader(body))
			}
			if err != nil {
				panic(err)
			}
			req.Header["X-Two"] = []string{"a", " b\t"}
			if change != nil {
				change(req)
			}
			return req
		}
	}
	return []asked{
		{"GET", make("GET", "/a%2Fb?q=1&%zz", "", nil)},
		{"HEAD", make("HEAD", "/", "", nil)},
		{"POST without a body", make("POST", "/", "", nil)},
		{"short POST", make("POST", "/", "body", func(r *http.Request) { r.Host = "other.example:80" })},
		{"long PUT", make("PUT", "/", strings.Repeat("b", 100000), nil)},
		{"chunked POST with trailers", func() *http.Request {
			r := make("POST", "/", "", nil)()
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("one"), strings.NewReader("two")))
			r.ContentLength, r.Trailer = -1, http.Header{"Sum": {"3"}}
			return r
		}},
		{"without a user agent, to be closed", make("GET", "/", "", func(r *http.Request) { r.Header["User-Agent"], r.Close = []string{""}, true })},
	}
}

var said = map[string]string{
	"with a length":       "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
	"chunked":             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n3;x=y\r\nabc\r\n0\r\nSum: 1\r\nOther: 2\r\n\r\n",
	"204":                 "HTTP/1.1 204 No Content\r\n\r\n",
	"304":                 "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nEtag: x\r\n\r\n",
	"early hints":         "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
	"to the end":          "HTTP/1.1 200 OK\r\n\r\nabc",
	"HTTP/1.0":            "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
	"closes":              "HTTP/1.1 500 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
	"half":                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
	"half a chunk":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
	"half a header":       "HTTP/1.1 200 OK\r\nConte",
	"garbage":             "not HTTP at all\r\n\r\n",
	"no colon":            "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
	"two lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
	"a length and chunks": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	"two answers":         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb",
	"nothing":             "",
	"switches":            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nabc",
	"larger than a read":  "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("z", 70000),
}

// net/http's own Transport is the model: the same answers, and the same requests at the server.
func TestEveryAnswerIsReadAsNetHTTPReadsIt(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(said)) {
		for _, req := range requests() {
			t.Run(name+"/"+req.name, func(t *testing.T) {
				var got, heard [2]string
				for i, make := range []func(dialer) http.RoundTripper{func(d dialer) http.RoundTripper { return ours(d) }, func(d dialer) http.RoundTripper { return theirs(d) }} {
					a := &answers{says: said[name], heard: make1(), close: true}
					got[i] = came(make(listens(t, a.serve)), req.make())
					heard[i] = <-a.heard
				}
				if got[0] != got[1] {
					t.Errorf("the answer is\n%.300s, and to net/http\n%.300s", got[0], got[1])
				}
				if heard[0] != heard[1] {
					t.Errorf("the request is\n%.300s, and of net/http\n%.300s", heard[0], heard[1])
				}
			})
		}
	}
}

func make1() chan string { return make(chan string, 1) }

// A connection is used again exactly when net/http would.
func TestAConnectionIsUsedAgainAsNetHTTPDoes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if strings.HasPrefix(name, "half") || name == "to the end" || name == "nothing" || name == "switches" {
			continue // where the server has to close
		}
		for _, req := range requests() {
			t.Run(name+"/"+req.name, func(t *testing.T) {
				var dialled [2]int
				for i, make := range []func(dialer) http.RoundTripper{func(d dialer) http.RoundTripper { return ours(d) }, func(d dialer) http.RoundTripper { return theirs(d) }} {
					a := &answers{says: said[name], heard: make1()}
					dial := listens(t, a.serve)
					rt := make(func(ctx context.Context, n, at string) (net.Conn, error) { dialled[i]++; return dial(ctx, n, at) })
					for range 3 {
						came(rt, req.make())
						time.Sleep(2 * time.Millisecond) // net/http's reader sees what is too much
					}
				}
				if dialled[0] != dialled[1] {
					t.Errorf("%d connections, and of net/http %d", dialled[0], dialled[1])
				}
			})
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, says := range said {
		f.Add([]byte(says), byte(0))
		f.Add([]byte(says), byte(1))
	}
	f.Fuzz(func(t *testing.T, says []byte, which byte) {
		if bytes.Contains(says, []byte("HTTP/1.1 1")) && bytes.Contains(says, []byte(" 101")) {
			return // a connection, whose reading net/http leaves to the caller
		}
		all := requests()
		req := all[int(which)%len(all)]
		var got [2]string
		for i, make := range []func(dialer) http.RoundTripper{func(d dialer) http.RoundTripper { return ours(d) }, func(d dialer) http.RoundTripper { return theirs(d) }} {
			a := &answers{says: string(says), heard: make1(), close: true}
			got[i] = came(make(pipes(a)), req.make())
		}
		if got[0] != got[1] {
			t.Errorf("%q: the answer is\n%.300s, and to net/http\n%.300s", says, got[0], got[1])
		}
	})
}
