package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// quiet hears nothing.
type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

// Servers of HTTP/2 that are replaced while they work: each says GOAWAY, waits for less
// time than its work takes, and cuts the rest off. Every charge is made once, and every
// client learns of it.
func TestServersThatAreReplaced(t *testing.T) {
	const workers, charges, replaced = 8, 40, 12
	var mu sync.Mutex
	made := map[string]int{}
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Millisecond)
		mu.Lock()
		made[r.Header.Get("Idempotency-Key")]++
		mu.Unlock()
		io.WriteString(w, "charged")
	})
	h, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), charge, idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Wait: time.Second, Observer: quiet{}}})
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Pointer[httptest.Server]
	begin := func() *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = true
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are cut off
		s.StartTLS()
		return now.Swap(s)
	}
	begin()
	defer func() { now.Load().Close() }()
	base := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, now.Load().Listener.Addr().String())
		},
	}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &gabionhttp.Transport{Base: base, Dependency: gabion.New("bank", policy.Policy{
		Retry:   policy.Retry{Attempts: 6, Backoff: backoff.Full(5*time.Millisecond, 50*time.Millisecond), Budget: policy.Budget{Off: true}},
		Breaker: policy.Breaker{Off: true},
	})}}
	settled := make(chan struct{}, workers*charges)
	var working sync.WaitGroup
	for worker := range workers {
		working.Go(func() {
			for n := range charges {
				key := fmt.Sprint(worker, "-", n)
				for try, learned := 0, false; !learned; try++ { // an answer may be cut off, and is asked for again
					req, _ := http.NewRequestWithContext(t.Context(), "POST", "https://bank.test/charges", strings.NewReader("12 EUR"))
					req.Header.Set("Idempotency-Key", key)
					resp, err := client.Do(req)
					if err != nil && try < 5 {
						continue // of a connection that ends as it is made net/http says nothing that could be known
					}
					if err != nil {
						t.Errorf("%s: %v", key, err)
						break
					}
					body, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if learned = err == nil; learned && (resp.StatusCode != 200 || string(body) != "charged" || resp.ProtoMajor != 2) {
						t.Errorf("%s: %s over %s: %s", key, resp.Status, resp.Proto, body)
					}
				}
				settled <- struct{}{}
			}
		})
	}
	for range replaced {
		for range workers * charges / (replaced + 1) {
			<-settled
		}
		old := begin()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		old.Config.Shutdown(ctx)
		cancel()
		old.CloseClientConnections()
		old.Config.Close()
	}
	working.Wait()
	for key, n := range made {
		if n != 1 {
			t.Errorf("%s was made %d times", key, n)
		}
	}
	if len(made) != workers*charges {
		t.Errorf("%d charges of %d", len(made), workers*charges)
	}
}
