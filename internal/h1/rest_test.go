package h1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// joined holds back what is written until it is let go, so that several records of TLS arrive at once.
type joined struct {
	net.Conn
	hold bool
	kept []byte
}

func (j *joined) Write(p []byte) (int, error) {
	if j.hold {
		j.kept = append(j.kept, p...)
		return len(p), nil
	}
	return j.Conn.Write(p)
}

// What a server sends beyond its answer may wait in what speaks TLS, where the socket does not show it. The next request
// must not get it as its own answer.
func TestWhatIsTooMuchInTLSIsNotTheNextAnswer(t *testing.T) {
	s, rt, next, _ := secured(t, false)
	next.RoundTripper = answersOnce{}
	serve := func(c net.Conn) {
		j := &joined{Conn: c}
		secure := tls.Server(j, s.TLS)
		defer secure.Close()
		for r := bufio.NewReader(secure); ; {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			j.hold = true
			io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"+req.URL.Path[1:])
			io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
			j.hold = false
			j.Conn.Write(j.kept)
			j.kept = nil
		}
	}
	rt.Dial = listens(t, serve)
	for i, want := range []string{"aa", "bb", "cc", "dd"} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://example.com/"+want, nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if i > 0 && (err != nil || string(text) != want) { // the first one went the other way
			t.Errorf("asked for %s and got %q, %v", want, text, err)
		}
	}
}

// A body whose length is known is passed on as it comes.
func TestALongBodyIsPassedOnAsItComes(t *testing.T) {
	came := make(chan string)
	rt := ours(listens(t, func(c net.Conn) {
		defer c.Close()
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		part := make([]byte, 5)
		io.ReadFull(req.Body, part)
		came <- string(part)
		io.Copy(io.Discard, req.Body)
		io.WriteString(c, short)
	}))
	body, rest := io.Pipe()
	req, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://server.example/", body)
	req.ContentLength = 100_000
	done := make(chan error)
	go func() {
		resp, err := rt.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	io.WriteString(rest, "first")
	select {
	case part := <-came:
		if part != "first" {
			t.Error(part)
		}
	case <-time.After(5 * time.Second):
		t.Error("the first bytes of the body wait for more")
		rest.CloseWithError(io.ErrUnexpectedEOF)
		<-done
		return
	}
	io.WriteString(rest, strings.Repeat("b", 100_000-5))
	rest.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Answers of 1xx may say that they are of HTTP/1.0.
func TestTheLastAnswerIsWaitedForAlsoBehindOneOfHTTP10(t *testing.T) {
	rt := ours(listens(t, func(c net.Conn) {
		defer c.Close()
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.0 103 Early Hints\r\n\r\n")
		time.Sleep(50 * time.Millisecond)
		io.WriteString(c, short)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if saw, err := ask(t, rt, ctx, "GET", nil, false); err != nil {
		t.Error(saw, err)
	}
}

// A dialer sees the end of the context's time by itself, and may do so before the context.
func TestADialThatTheDeadlineEndsHasItsCause(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, why)
	defer cancel()
	rt := ours(func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrDeadlineExceeded })
	if _, err := ask(t, rt, ended{ctx}, "GET", nil, false); err != why {
		t.Error(err)
	}
}

// ended is a context whose time is over a little before it is done.
type ended struct{ context.Context }

func (ended) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }
