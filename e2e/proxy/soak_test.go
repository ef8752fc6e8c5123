package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
)

// soaked is what is measured of a process.
type soaked struct{ memory, goroutines, descriptors float64 }

// Clients ask for as much as the machine has time for, and in all the ways that leave something behind if they are not cleaned up: bodies that
// are remembered, attempts that fail, clients that go away in the middle, answers that break off, connections of one request. What the
// command has of memory, goroutines and descriptors does not grow with the time, and is given back in the end. With GABION_SOAK=1 it takes
// ten minutes, and with a time such as GABION_SOAK=3m that time.
func TestFullLoadLeavesNothingBehind(t *testing.T) {
	long(t, "ten seconds of load")
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		testservers.Missing(t, "there is no /proc")
	}
	lasts := 10 * time.Second
	if soak := os.Getenv("GABION_SOAK"); soak != "" {
		lasts = 10 * time.Minute
		if d, err := time.ParseDuration(soak); err == nil {
			lasts = d
		}
	}
	server := httptest.NewServer(http.HandlerFunc(soakServer))
	defer server.Close()
	at := addresses(t, 3)
	p := proxied(t, at[2], fmt.Sprintf("version: 1\ndependencies:\n  api: {breaker: off, retry: {attempts: 3, backoff: {base: 1ms}}}\nproxy:\n  listen:\n"+
		"    - {address: %s, to: %s, dependency: api}\n    - {address: %s, ingress: {to: %s, deadlines: true, admission: {limit: learned}}}\n  admin: {address: %s}\n", at[0], server.URL, at[1], server.URL, at[2]))
	first := p.soaked(t, at[2])
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var asked atomic.Int64
	var clients sync.WaitGroup
	for n := range 16 {
		clients.Go(func() {
			c := newSoakClient(n)
			defer c.CloseIdleConnections()
			for i := n; ctx.Err() == nil; i++ {
				soakAsk(ctx, c, "http://"+at[i/7%2], i)
				asked.Add(1)
			}
		})
	}
	var seen []soaked
	for every := time.NewTicker(lasts / 60); ctx.Err() == nil; {
		select {
		case <-every.C:
			seen = append(seen, p.soaked(t, at[2]))
		case <-ctx.Done():
		}
	}
	clients.Wait()
	flat := seen[len(seen)/3:]
	for _, one := range []struct {
		what  string
		of    func(soaked) float64
		floor float64 // chance
	}{
		{"bytes of memory", func(s soaked) float64 { return s.memory }, 8 << 20},
		{"goroutines", func(s soaked) float64 { return s.goroutines }, 20},
		{"descriptors", func(s soaked) float64 { return s.descriptors }, 20},
	} {
		mean, grows := slope(flat, one.of)
		t.Logf("%s: %.0f on average, %.0f more at the end, by the slope", one.what, mean, grows)
		if grows > max(one.floor, mean/10) {
			t.Errorf("%s grow by %.0f in %v; the average is %.0f", one.what, grows, lasts, mean)
		}
	}
	server.CloseClientConnections()
	var last soaked
	for limit := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		last = p.soaked(t, at[2])
		if last.goroutines <= first.goroutines+4 && last.descriptors <= first.descriptors+4 {
			break
		}
		if time.Now().After(limit) {
			t.Errorf("a minute after the load %.0f goroutines and %.0f descriptors, and %.0f and %.0f before it", last.goroutines, last.descriptors, first.goroutines, first.descriptors)
			break
		}
	}
	t.Logf("%d requests in %v; before %+v, after %+v", asked.Load(), lasts, first, last)
}

// soakServer answers by the path.
func soakServer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/fails":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "/stream":
		for range 5 {
			fmt.Fprintf(w, "%0100d\n", 1)
			w.(http.Flusher).Flush()
		}
	case "/breaks":
		w.Header().Set("Content-Length", "1000000")
		w.Write(make([]byte, 100000))
	case "/slow":
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	default:
		w.Write(body)
	}
}

// newSoakClient makes one of three kinds: with one connection, with a connection for each request, and of HTTP/2.
func newSoakClient(n int) *http.Client {
	tr := &http.Transport{DisableKeepAlives: n%4 == 1, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(n%4 != 2)
	tr.Protocols.SetUnencryptedHTTP2(n%4 == 2)
	return &http.Client{Transport: tr}
}

// soakAsk sends the i-th request. What becomes of it other tests tell.
func soakAsk(ctx context.Context, c *http.Client, at string, i int) {
	method, path, size := "GET", "/", 0
	switch i % 8 {
	case 0, 1:
		method, size = "POST", 1<<10
	case 2:
		method, size = "PUT", 100<<10
	case 3:
		path = "/stream"
	case 4:
		if path = "/fails"; i%5 == 0 {
			path = "/breaks"
		}
	case 5:
		if i%3 == 0 { // the client goes away
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(i%9)*time.Millisecond)
			defer cancel()
		}
		method, path, size = "PUT", "/slow", 10<<10
	}
	req, err := http.NewRequestWithContext(ctx, method, at+path, io.LimitReader(zeros{}, int64(size)))
	if err != nil {
		return
	}
	if size == 0 {
		req.Body = nil
	}
	resp, err := c.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// soaked measures the process, with what its admin listener says.
func (p *process) soaked(t *testing.T, admin string) (s soaked) {
	t.Helper()
	pid := p.cmd.Process.Pid
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	s.descriptors = float64(len(fds))
	s.memory = resident(t, pid)
	conn, err := net.Dial("tcp", admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /metrics HTTP/1.0\r\n\r\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			s.goroutines, _ = strconv.ParseFloat(n, 64)
		}
	}
	if s.goroutines == 0 {
		t.Fatal("the metrics do not have the goroutines")
	}
	return s
}

// resident is what a process has in memory, in bytes.
func resident(t *testing.T, pid int) float64 {
	t.Helper()
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	return pages * float64(os.Getpagesize())
}

// slope returns the mean, and by how much the line through the points rises, which has the least squares.
func slope(all []soaked, of func(soaked) float64) (mean, rise float64) {
	n := float64(len(all))
	for _, s := range all {
		mean += of(s) / n
	}
	var up, wide float64
	for i, s := range all {
		x := float64(i) - (n-1)/2
		up += x * (of(s) - mean)
		wide += x * x
	}
	return mean, up / wide * (n - 1)
}

func TestAnIdleProxyIsSmall(t *testing.T) {
	long(t, "the command is built")
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		testservers.Missing(t, "/proc is needed: %v", err)
	}
	const most = 25 << 20
	at := addresses(t, 1)[0]
	p := proxied(t, at, strings.Replace(egress("http://127.0.0.1:1", quick), "127.0.0.1:0", at, 1))
	memory := 0.0
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) { // nothing tells when the start is over
		if memory = resident(t, p.cmd.Process.Pid); memory <= most {
			t.Logf("%.1f MiB", memory/(1<<20))
			return
		}
	}
	t.Errorf("%.1f MiB", memory/(1<<20))
}
