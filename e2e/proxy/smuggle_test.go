package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is a server that remembers what requests it saw, and the bytes that they came in.
type recorder struct {
	mu   sync.Mutex
	seen []string
	wire bytes.Buffer
}

func (s *recorder) serve(conn net.Conn) {
	r := bufio.NewReader(io.TeeReader(conn, s))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		s.mu.Lock()
		what := fmt.Sprintf("%s %s %s", req.Method, req.URL.Path, body)
		if err != nil {
			what += " broken off"
		}
		s.seen = append(s.seen, what)
		s.mu.Unlock()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// Write implements io.Writer.
func (s *recorder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire.Write(p)
}

// what returns what was seen so far.
func (s *recorder) what() (seen []string, wire string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen), s.wire.String()
}

// statuses are those of all answers to what is sent on one connection.
func statuses(t *testing.T, at, text string) (all []int) {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(400 * time.Millisecond))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return all
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		all = append(all, resp.StatusCode)
	}
}

const next = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"

// Wherever two readers of a message could disagree on where it ends, the proxy decides once and
// hands on what it decided in a message that can be read in one way only; or it refuses.
func TestSmuggledRequests(t *testing.T) {
	long(t, "each connection is watched for some time")
	post := func(headers, body string) string {
		return "POST /a HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n" + body
	}
	for name, c := range map[string]struct {
		text   string
		status []int
		seen   []string
		never  string // what must not reach the server
	}{
		"CL.TE":                       {post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n") + next, []int{200, 200}, []string{"POST /a ", "GET /next "}, "Content-Length: 6"},
		"TE.CL":                       {post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "1c\r\nGET /hidden HTTP/1.1\r\nHost: h\r\n0\r\n\r\n"), []int{400}, nil, ""},
		"TE.CL, well formed":          {post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "5\r\nhello\r\n0\r\n\r\n"), []int{200}, []string{"POST /a hello"}, "Content-Length: 3"},
		"an encoding that is unknown": {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), []int{501}, nil, ""},
		"two encodings":               {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"), []int{501}, nil, ""},
		"a space before the colon":    {post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), []int{400}, nil, ""},
		"a folded encoding":           {post("Transfer-Encoding:\r\n chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), []int{200}, []string{"POST /a hello"}, "\r\n chunked"},
		"obs-fold":                    {post("X-A: a\r\n b\r\nContent-Length: 0\r\n", ""), []int{200}, []string{"POST /a "}, "\r\n b"},
		"two lengths that differ":     {post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), []int{400}, nil, ""},
		"two lengths that agree":      {post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), []int{200}, []string{"POST /a hello"}, "Content-Length: 5\r\nContent-Length"},
		"a list of lengths":           {post("Content-Length: 5, 5\r\n", "hello"), []int{400}, nil, ""},
		"a length with a sign":        {post("Content-Length: +5\r\n", "hello"), []int{400}, nil, ""},
		"a negative length":           {post("Content-Length: -5\r\n", ""), []int{400}, nil, ""},
		"chunk extensions":            {post("Transfer-Encoding: chunked\r\n", "5;a=\"\\r\\n\"\r\nhello\r\n0;b\r\n\r\n"), []int{200}, []string{"POST /a hello"}, ";"},
		"a chunk without end":         {post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"), []int{400}, nil, ""},
		"a chunk that is too long":    {post("Transfer-Encoding: chunked\r\n", "3\r\nhello\r\n0\r\n\r\n"), []int{400}, nil, ""},
		"a body of GET":               {"GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 33\r\n\r\n" + next + "\r\n", []int{200}, []string{"GET /a " + next + "\r\n"}, ""},
		"a CR alone in a header":      {post("X-A: a\rContent-Length: 9\r\nContent-Length: 0\r\n", ""), []int{400}, nil, ""},
		"a NUL in a header":           {post("X-A: a\x00\r\nContent-Length: 0\r\n", ""), []int{400}, nil, ""},
		"no host":                     {"GET /a HTTP/1.1\r\n\r\n", []int{400}, nil, ""},
		"two hosts":                   {"GET /a HTTP/1.1\r\nHost: h\r\nHost: evil\r\n\r\n", []int{400}, nil, ""},
		"absolute form, other host":   {"GET http://evil.example/a HTTP/1.1\r\nHost: h\r\n\r\n", []int{200}, []string{"GET /a "}, "GET http"},
		"a named hop-by-hop header":   {"GET /a HTTP/1.1\r\nHost: h\r\nConnection: X-Secret\r\nX-Secret: s\r\n\r\n", []int{200}, []string{"GET /a "}, "X-Secret"},
		"an upgrade to HTTP/2":        {"GET /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", []int{200}, []string{"GET /a "}, "h2c"},
	} {
		for side, file := range map[string]func(string) string{"egress": func(to string) string { return egress(to, "retry: off") }, "ingress": ingress} {
			t.Run(name+"/"+side, func(t *testing.T) {
				t.Parallel()
				s := new(recorder)
				at := front(t, file(raw(t, s.serve)))
				status := statuses(t, at, c.text)
				seen, wire := s.what()
				whole := slices.DeleteFunc(slices.Clone(seen), func(what string) bool { return strings.HasSuffix(what, " broken off") })
				if !slices.Equal(status, c.status) || !slices.Equal(whole, c.seen) {
					t.Errorf("answers %d, the server saw %q; want %d and %q", status, seen, c.status, c.seen)
				}
				if c.never != "" && strings.Contains(wire, c.never) {
					t.Errorf("%q reached the server:\n%s", c.never, wire)
				}
			})
		}
	}
}
