// Proxybench compares what proxies cost: processor time of the proxy's process for each request,
// read from /proc, so that the load, the server and the other proxies on the machine don't count.
//
//	go run ./proxybench [-rounds 5] [-requests 4000] [-beside COMMAND] [-work "GET.*64"]
//
// Over HTTP/1.1 a connection has one request at a time, over HTTP/2 one or 16; gRPC is a call with 1 KiB and its answer with trailers.
// With -beside another build of the command is measured in turn with this one. It runs httputil.ReverseProxy and gabion, and nginx, HAProxy and Caddy where they are installed.
// Only ratios within one run mean anything.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// work is one kind of request at one number of connections.
type work struct {
	name, request string
	connections   int
	streams       int  // at once in each connection, over HTTP/2; 0 means HTTP/1.1
	call          bool // of gRPC, not a GET
}

func works() (all []work) {
	body := strings.Repeat("b", 1024)
	for _, connections := range []int{4, 64} {
		for _, w := range []work{
			{name: "GET 100 B", request: "GET /100 HTTP/1.1\r\nHost: h\r\n\r\n"},
			{name: "GET 4 KiB", request: "GET /4096 HTTP/1.1\r\nHost: h\r\n\r\n"},
			{name: "POST 1 KiB", request: "POST /100 HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 1024\r\n\r\n" + body},
		} {
			w.name, w.connections = fmt.Sprintf("%s, %d connections", w.name, connections), connections
			all = append(all, w)
		}
	}
	for _, streams := range []int{1, 16} {
		all = append(all, work{name: fmt.Sprintf("HTTP/2, 4 x %d", streams), connections: 4, streams: streams},
			work{name: fmt.Sprintf("gRPC, 4 x %d", streams), connections: 4, streams: streams, call: true})
	}
	return all
}

// proxy is a process that passes requests on to the server.
type proxy struct {
	name, at string
	at2      string // for HTTP/2; empty means that it is not asked
	cmd      *exec.Cmd
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "reverseproxy" {
		exit(reverse(os.Args[2], os.Args[3]))
	}
	rounds := flag.Int("rounds", 5, "how often each is measured")
	requests := flag.Int("requests", 4000, "of one measurement")
	beside := flag.String("beside", "", "another build of the command gabion")
	only := flag.String("work", "", "regular expression: which kinds of requests")
	flag.Parse()
	exit(compare(*rounds, *requests, *beside, regexp.MustCompile(*only)))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxybench:", err)
		os.Exit(1)
	}
}

// reverse is httputil.ReverseProxy as it is usually set up.
func reverse(at, to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	p := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport:  asCame{&http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}, only2()},
		BufferPool: &buffers{sync.Pool{New: func() any { return make([]byte, 32<<10) }}},
	}
	return (&http.Server{Addr: at, Handler: p, Protocols: both()}).ListenAndServe()
}

type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().([]byte) }

// Put implements it, too.
func (b *buffers) Put(p []byte) { b.pool.Put(p) } //nolint:staticcheck // one allocation for both sides

// server answers with as many bytes as the path says.
func server() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		_ = (&http.Server{Protocols: both(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Header.Get("Content-Type") == "application/grpc" {
				call(w)
				return
			}
			n := 100
			if r.URL.Path == "/4096" {
				n = 4096
			}
			_, _ = w.Write(bytes.Repeat([]byte("a"), n))
		})}).Serve(l)
	}()
	return l.Addr().String(), nil
}

// ours is gabion's file.
const ours = `version: 1
dependencies:
  api: {preset: external-api, bulkhead: {limit: 200}}
proxy:
  listen:
    - {address: AT, to: "http://TO", dependency: api}
    - {address: HTTP2, to: "h2c://TO", dependency: api}
`

func run(_, file string) []string { return []string{"proxy", file} }

// proxies starts those that are here, and says which are missing.
func proxies(dir, to, beside string) (all []*proxy, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	gabion := filepath.Join(dir, "gabion")
	if out, err := exec.Command("go", "build", "-o", gabion, "github.com/gabion-go/gabion/cmd/gabion").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	for _, p := range []struct {
		name, program, text string
		args                func(at, file string) []string
	}{
		{"ReverseProxy", self, "", func(at, _ string) []string { return []string{"reverseproxy", at, "http://" + to} }},
		{"gabion", gabion, ours, run},
		{"beside", beside, ours, run},
		{"nginx", "nginx", "daemon off; pid DIR/nginx.pid; events {} http { access_log off; upstream u { server TO; keepalive 256; } server { listen AT; location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection \"\"; } } }",
			func(_, file string) []string { return []string{"-c", file, "-p", dir} }},
		{"haproxy", "haproxy", "defaults\n mode http\n http-reuse always\n timeout connect 5s\n timeout client 1m\n timeout server 1m\nlisten l\n bind AT\n server s TO\n",
			func(_, file string) []string { return []string{"-f", file} }},
		{"caddy", "caddy", "{\n admin off\n}\nhttp://AT {\n reverse_proxy TO\n}\n", func(_, file string) []string { return []string{"run", "--config", file, "--adapter", "caddyfile"} }},
	} {
		if p.program == "" {
			continue
		}
		program, err := exec.LookPath(p.program)
		if err != nil {
			fmt.Println("not installed:", p.name)
			continue
		}
		at, at2, err := addresses()
		if err != nil {
			return all, err
		}
		file := filepath.Join(dir, p.name+".conf")
		text := strings.NewReplacer("AT", at, "HTTP2", at2, "TO", to, "DIR", dir).Replace(p.text)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return all, err
		}
		switch p.text {
		case "":
			at2 = at
		case ours:
		default:
			at2 = ""
		}
		x := &proxy{name: p.name, at: at, at2: at2, cmd: exec.Command(program, p.args(at, file)...)}
		if err := x.cmd.Start(); err != nil {
			return all, err
		}
		all = append(all, x)
		if err := up(at); err != nil {
			return all, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return all, nil
}

// addresses are two that are free.
func addresses() (one, two string, err error) {
	var all [2]string
	for i := range all {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close()
		all[i] = l.Addr().String()
	}
	return all[0], all[1], nil
}

func up(at string) error {
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(until) {
			return err
		}
	}
}

func compare(rounds, requests int, beside string, only *regexp.Regexp) error {
	dir, err := os.MkdirTemp("", "proxybench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	to, err := server()
	if err != nil {
		return err
	}
	all, err := proxies(dir, to, beside)
	for _, p := range all {
		defer func() {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}()
	}
	if err != nil {
		return err
	}
	fmt.Printf("%-28s %-14s %10s %8s %10s %8s %11s %6s\n", "", "", "us/request", "system", "switches", "ratio", "from to", "MiB")
	for _, w := range works() {
		if !only.MatchString(w.name) {
			continue
		}
		costs := map[string][]cost{}
		for round := range rounds + 1 {
			for _, p := range all {
				if !p.speaks(w) {
					continue
				}
				used, err := p.measure(w, requests)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", p.name, w.name, err)
				}
				if round > 0 { // the first one warms up
					costs[p.name] = append(costs[p.name], used)
				}
			}
		}
		for _, p := range all {
			if !p.speaks(w) {
				continue
			}
			each := func(of func(i int, c cost) float64) (sorted []float64) {
				for i, c := range costs[p.name] {
					sorted = append(sorted, of(i, c))
				}
				slices.Sort(sorted)
				return sorted
			}
			ratios := each(func(i int, c cost) float64 { return c.all / costs[all[0].name][i].all }) // of one round
			fmt.Printf("%-28s %-14s %10.1f %8.1f %10.2f %8.2f %6.2f %.2f %6.1f\n", w.name, p.name, median(each(func(_ int, c cost) float64 { return c.all })),
				median(each(func(_ int, c cost) float64 { return c.system })), median(each(func(_ int, c cost) float64 { return c.switches })),
				median(ratios), ratios[0], ratios[len(ratios)-1], p.memory())
		}
	}
	return nil
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

func (p *proxy) speaks(w work) bool { return w.streams == 0 || p.at2 != "" }

// measure sends requests and returns what the proxy used for one.
func (p *proxy) measure(w work, requests int) (cost, error) {
	before, err := p.used()
	if err != nil {
		return cost{}, err
	}
	errs := make(chan error, w.connections)
	for range w.connections {
		go func() {
			if w.streams > 0 {
				errs <- send2(p.at2, w, requests/w.connections)
				return
			}
			errs <- send(p.at, w.request, requests/w.connections)
		}()
	}
	for range w.connections {
		if e := <-errs; e != nil {
			err = e
		}
	}
	if err != nil {
		return cost{}, err
	}
	after, err := p.used()
	n := float64(requests / w.connections * w.connections)
	return cost{(after.all - before.all) / n, (after.system - before.system) / n, (after.switches - before.switches) / n}, err
}

func send(at, request string, n int) error {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for range n {
		if _, err := io.WriteString(conn, request); err != nil {
			return err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
	}
	return nil
}
