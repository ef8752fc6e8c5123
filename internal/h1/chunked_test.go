package h1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzChunked compares with net/http's reader: of a body that is said to be in memory it reads that many bytes, needs no more, and leaves none.
func FuzzChunked(f *testing.F) {
	for _, b := range []string{
		"2\r\nok\r\n0\r\n\r\n", "0\r\n\r\n", "000a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", "2;e=v\r\nok\r\n0\r\n\r\n", "2\r\nok\r\n0\r\nA: b\r\n\r\n",
		"2\r\nok\r\n", "2\r\nok\r\n0\r\n", "2\r\nok\r\n0\r\n\r\nmore", "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "+2\r\nok\r\n0\r\n\r\n", "-2\r\nok\r\n0\r\n\r\n", "ffffffffffffffff\r\n",
		"ffff\r\n", " 2\r\nok\r\n0\r\n\r\n", "2 \r\nok\r\n0\r\n\r\n", "2\nok\n0\n\n", "0_2\r\nok\r\n0\r\n\r\n", "0x2\r\nok\r\n0\r\n\r\n", "",
	} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := chunked(b)
		r := bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(b)))
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(resp.Body)
		rest, _ := io.ReadAll(r)
		switch whole := err == nil && len(rest) == 0 && len(resp.Trailer) == 0; {
		case n >= 0 && (!whole || n != int64(len(all))):
			t.Errorf("%q: %d, and net/http reads %q, %v, and leaves %q", b, n, all, err, rest)
		case n < 0 && whole && bytes.Equal(b, []byte("2\r\nok\r\n0\r\n\r\n")):
			t.Error("nothing is seen to be whole")
		}
	})
}

func TestOnlyAnAnswerThatIsThereToItsEndIsWhole(t *testing.T) {
	const head, end = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n"
	for _, c := range []struct {
		name, first, rest string
		whole             bool
	}{
		{"in one", head + "2\r\nok\r\n" + end, "", true},
		{"without its end", head + "2\r\nok\r\n", end, false},
		{"with a trailer", head + "2\r\nok\r\n0\r\nA: b\r\n\r\n", "", false},
		{"of known length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			begun := make(chan struct{})
			go func() {
				s, err := l.Accept()
				if err != nil {
					return
				}
				defer s.Close()
				http.ReadRequest(bufio.NewReader(s))
				io.WriteString(s, c.first)
				<-begun
				io.WriteString(s, c.rest)
			}()
			var whole *http.Response
			rt := &Transport{Dial: new(net.Dialer).DialContext, Whole: func(r *http.Response) { whole = r }}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String(), nil)
			resp, err := rt.RoundTrip(req)
			close(begun)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if (whole == resp) != c.whole {
				t.Errorf("whole is %v", whole)
			}
			if b, err := io.ReadAll(resp.Body); string(b) != "ok" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}
