package gabionhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// until gives way to others until it is so. The test's own timeout ends it otherwise.
func until(so func() bool) {
	for !so() {
		runtime.Gosched()
	}
}

// Real clients over real connections. Most leave while they wait: their requests never begin,
// they delay no other client, and every slot is given back.
func TestClientsThatGoAway(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1", true: "HTTP/2"}[http2], func(t *testing.T) {
			const stay, leave = 5, 40
			var begun atomic.Int64
			hold := make(chan struct{})
			a := &gabionhttp.Admission{Limit: 2, Queue: 100, Interval: time.Hour, Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				begun.Add(1)
				if r.URL.Path == "/leave" {
					t.Error("work was begun for a client that had gone")
				}
				<-hold
			})}
			server := httptest.NewUnstartedServer(a)
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			var all sync.WaitGroup
			get := func(ctx context.Context, path string) {
				all.Go(func() {
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
					resp, err := server.Client().Do(r)
					if err != nil && (path != "/leave" || !errors.Is(err, context.Canceled)) { // one that leaves may still hear its refusal
						t.Errorf("%s: %v", path, err)
					}
					if err == nil {
						resp.Body.Close()
					}
				})
			}
			get(t.Context(), "/first")
			get(t.Context(), "/first")
			until(func() bool { return begun.Load() == 2 })
			ctx, cancel := context.WithCancel(t.Context())
			for i := range stay + leave {
				if i < leave {
					get(ctx, "/leave")
				} else {
					get(t.Context(), "/stay")
				}
			}
			until(func() bool { return a.Stats().Queued == stay+leave })
			cancel()
			until(func() bool { return a.Stats().Gone == leave })
			close(hold)
			all.Wait()
			until(func() bool { return a.Stats().InUse == 0 }) // the answer is out a moment before
			if s := a.Stats(); s.Admitted != 2+stay || s.Gone != leave || s.Saved() != leave || s.Queued != 0 || s.Refused() != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A connection that was taken over keeps its slot until its handler gives it back, and
// goes on without.
func TestAConnectionThatWasTakenOver(t *testing.T) {
	ready := make(chan bool, 1)
	a := &gabionhttp.Admission{Limit: 1, Queue: policy.Off, Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		ready <- gabionhttp.ReleaseSlot(r.Context())
		line, _ := rw.ReadString('\n')
		fmt.Fprint(conn, line)
	})}
	server := httptest.NewServer(a)
	defer server.Close()
	r, _ := http.NewRequest(http.MethodGet, server.URL, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if !<-ready {
		t.Error("there was no slot to give back")
	}
	other, err := server.Client().Get(server.URL)
	if err != nil || other.StatusCode != 200 {
		t.Errorf("beside it: %v, %v", other, err)
	}
	other.Body.Close()
	both := resp.Body.(io.ReadWriter)
	fmt.Fprintln(both, "still there")
	if line, _ := bufio.NewReader(both).ReadString('\n'); strings.TrimSpace(line) != "still there" {
		t.Errorf("read %q", line)
	}
}

// A flood of one tenant over real connections: others are served, the flood is refused,
// and the one that floods never has more than its half.
func TestAFloodOfOneTenant(t *testing.T) {
	var mu sync.Mutex
	in, most := map[string]int{}, map[string]int{}
	a := &gabionhttp.Admission{Limit: 4, Queue: 8, Interval: time.Minute, Tenant: byName, TenantShare: 0.5, Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		who := byName(r)
		mu.Lock()
		in[who]++
		most[who] = max(most[who], in[who])
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		in[who]--
		mu.Unlock()
	})}
	server := httptest.NewServer(a)
	defer server.Close()
	ask := func(who string) (code int, mark bool) {
		r, _ := http.NewRequest(http.MethodGet, server.URL, nil)
		r.Header.Set("Tenant", who)
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Error(err)
			return 0, false
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("X-Should-Retry") != ""
	}
	var flood, others sync.WaitGroup
	var over atomic.Bool
	for range 16 {
		flood.Go(func() {
			for !over.Load() {
				if code, mark := ask("flood"); mark || code != 200 && code != 503 {
					t.Errorf("the flood is answered %d, with the mark: %v", code, mark)
				}
			}
		})
	}
	for i := range 4 {
		others.Go(func() {
			for range 20 {
				if code, _ := ask(fmt.Sprint("tenant ", i)); code != 200 {
					t.Errorf("tenant %d is answered %d", i, code)
				}
			}
		})
	}
	others.Wait()
	over.Store(true)
	flood.Wait()
	until(func() bool { return a.Stats().InUse == 0 })
	if most["flood"] > 2 {
		t.Errorf("at once: %v", most)
	}
}
