package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Clients ask all the time while the file is put into force 200 times, each time with another
// policy and with another listener that comes or goes. The server counts: each request arrives
// once and is answered, and streams that were open before the first reload are open after the last.
func TestReloadsUnderLoad(t *testing.T) {
	long(t, "200 reloads under load")
	var came atomic.Int64
	end := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			came.Add(1)
			io.Copy(w, r.Body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			fmt.Fprint(w, "data: x\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-end:
				fmt.Fprint(w, "data: end\n\n")
				return
			case <-tick.C:
			}
		}
	}))
	defer server.Close()
	finish := sync.OnceFunc(func() { close(end) })
	defer finish()
	at := addresses(t, 3)
	text := func(n int) string {
		all := fmt.Sprintf("version: 1\ndependencies:\n  api: {retry: off, timeout: {attempt: %dms}}\nproxy:\n  admin: {address: %s}\n  listen:\n    - {address: %s, to: %s, dependency: api}\n",
			4000+n, at[1], at[0], server.URL)
		if n%2 == 1 {
			all += fmt.Sprintf("    - {address: %s, to: %s/other, dependency: api}\n", at[2], server.URL)
		}
		return all
	}
	file := filepath.Join(t.TempDir(), "gabion.yaml")
	write(t, file, text(0))
	command, err := gabion()
	if err != nil {
		t.Fatal(err)
	}
	run(t, at[0], nil, command, "proxy", file)

	var streams, clients sync.WaitGroup
	for range 4 {
		conn, err := net.Dial("tcp", at[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		streams.Go(func() {
			all, err := io.ReadAll(resp.Body)
			if err != nil || !strings.HasSuffix(string(all), "data: end\n\n") {
				t.Errorf("a stream was cut after %d bytes: %v", len(all), err)
			}
		})
	}
	var stop atomic.Bool
	defer stop.Store(true)
	var answered atomic.Int64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	for range 8 {
		clients.Go(func() {
			for !stop.Load() {
				resp, err := client.Post("http://"+at[0]+"/", "text/plain", strings.NewReader("hello"))
				if err != nil {
					t.Errorf("after %d answers: %v", answered.Load(), err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || string(body) != "hello" {
					t.Errorf("%d %q, %v", resp.StatusCode, body, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for n := 1; n <= 200; n++ {
		write(t, file+".new", text(n))
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post("http://"+at[1]+"/reload", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("reload %d: %d %s", n, resp.StatusCode, said)
		}
	}
	stop.Store(true)
	clients.Wait()
	finish()
	streams.Wait()
	t.Logf("%d requests answered, %d came to the server, 4 streams whole, 200 reloads", answered.Load(), came.Load())
	if answered.Load() != came.Load() || answered.Load() < 200 {
		t.Errorf("%d answered, %d came", answered.Load(), came.Load())
	}
}
