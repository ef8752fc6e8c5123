package gabionhttp_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// Clients of a reverse proxy that stop in the middle of an upload hold its slots for
// no longer than the attempts may take.
func TestSlowUploadsHoldNoSlotForLong(t *testing.T) {
	for name, head := range map[string]string{
		"of known length":        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
		"short, of known length": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"chunked":                "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"keyed":                  "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1000000\r\n\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			behind := serve(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
			d := gabion.New("behind", policy.Policy{
				Timeout:  policy.Timeout{Call: 2 * time.Second, Attempt: 300 * time.Millisecond},
				Bulkhead: policy.Bulkhead{Limit: 8, Queue: policy.Off}, Breaker: policy.Breaker{Off: true},
				Retry: policy.Retry{Attempts: 1},
			})
			to, _ := url.Parse(behind.URL)
			proxy := httputil.NewSingleHostReverseProxy(to)
			proxy.Transport = &gabionhttp.Transport{Dependency: d, Base: base(t, behind)}
			proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) { gabionhttp.Error(w, err) }
			var arrived atomic.Int32
			front := serve(t, func(w http.ResponseWriter, r *http.Request) { arrived.Add(1); proxy.ServeHTTP(w, r) })
			for range 8 {
				c, err := net.Dial("tcp", front.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprint(c, head)
			}
			full := time.After(20 * time.Second)
			for seen := d.Stats().Bulkhead; seen.InUse > 0 || arrived.Load() < 8; seen = d.Stats().Bulkhead {
				select {
				case <-full:
					t.Fatalf("%d slots in use", seen.InUse)
				case <-time.After(10 * time.Millisecond):
				}
			}
			resp, err := http.Get(front.URL)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != 200 {
				t.Error(resp.Status)
			}
		})
	}
}
