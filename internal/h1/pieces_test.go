package h1_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A short body may come in pieces, too, from a client that is slow: each goes on as it comes, since the server may answer what it has
// seen. Of what is in one piece with its headers no more is asked.
func TestAShortBodyIsPassedOnAsItComes(t *testing.T) {
	came := make(chan string, 3)
	rt := ours(listens(t, func(c net.Conn) {
		defer c.Close()
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		for range 3 {
			part := make([]byte, 5)
			io.ReadFull(req.Body, part)
			came <- string(part)
		}
		io.WriteString(c, short)
	}))
	body, rest := io.Pipe()
	req, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://server.example/", body)
	req.ContentLength = 15
	done := make(chan error, 1)
	go func() {
		resp, err := rt.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	for _, part := range []string{"first", "secnd", "third"} {
		io.WriteString(rest, part)
		select {
		case got := <-came:
			if got != part {
				t.Errorf("%q came, want %q", got, part)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%q waits for more", part)
			rest.CloseWithError(io.ErrUnexpectedEOF)
			<-done
			return
		}
	}
	rest.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
