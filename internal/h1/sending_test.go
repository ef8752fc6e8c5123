package h1_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// A server may answer before it has read all of a body. Who sends the rest is not held up by who reads the answer, so the
// connection serves the next request as well.
func TestAnAnswerThatIsReadWhileTheBodyIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials, body := 0, strings.Repeat("b", 100_000)
		rt := ours(func(context.Context, string, string) (net.Conn, error) {
			dials++
			client, server := net.Pipe()
			go func() {
				for r := bufio.NewReader(server); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						server.Close()
						return
					}
					io.WriteString(server, short)
					io.Copy(io.Discard, req.Body)
				}
			}()
			return client, nil
		})
		for range 3 {
			req, _ := http.NewRequest("PUT", "http://server.example/", strings.NewReader(body))
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			synctest.Wait()
		}
		if dials != 1 {
			t.Errorf("%d connections", dials)
		}
		rt.CloseIdleConnections()
	})
}
