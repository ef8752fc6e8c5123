package gabionproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// echo upgrades each connection and says what it hears.
func echo() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(c, buffered)
	}))
}

// upgrade asks for one, and returns the status.
func upgrade(t *testing.T, at string) (net.Conn, *bufio.Reader, int) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, in, resp.StatusCode
}

func TestUpgradedConnectionsAreBounded(t *testing.T) {
	up := echo()
	defer up.Close()
	for name, file := range map[string]string{
		"egress":  strings.Replace(one(up.URL, ""), "dependency: api", "dependency: api, upgraded_timeout: 300ms, stall_timeout: 50ms", 1) + "  max_upgraded: 2\n",
		"ingress": "version: 1\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, upgraded_timeout: 300ms, stall_timeout: 50ms, ingress: {to: \"" + up.URL + "\"}}\n  max_upgraded: 2\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, file)
			at := r.proxy.Addr("127.0.0.1:0").String()
			first, in, code := upgrade(t, at)
			if code != 101 {
				t.Fatal(code)
			}
			silent, end, _ := upgrade(t, at)
			if _, _, code := upgrade(t, at); code != 503 {
				t.Error("a third one:", code)
			}
			if s := r.proxy.Stats(); s.Upgraded != 2 {
				t.Errorf("%+v", s)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := end.ReadByte()
				ended <- err
			}()
			for i := range 12 { // twice as long as it may be silent
				fmt.Fprintln(first, i)
				if line, err := in.ReadString('\n'); line != fmt.Sprintln(i) {
					t.Fatal("one that speaks was cut: ", line, err)
				}
				time.Sleep(50 * time.Millisecond)
			}
			if err := <-ended; err != io.EOF {
				t.Error("one that was silent:", err)
			}
			silent.Close()
			for r.proxy.Stats().Upgraded != 1 {
				time.Sleep(time.Millisecond)
			}
			if _, _, code := upgrade(t, at); code != 101 {
				t.Error("a place that is free again:", code)
			}
		})
	}
}

// A client of HTTP/2 that opens a tunnel and reads nothing of it keeps no place: a write to it is bounded, as any other is.
func TestATunnelOfHTTP2ThatIsNotReadEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan struct{})
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer close(ended)
		for err == nil {
			_, err = c.Write(make([]byte, 64<<10))
		}
	}()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	r := start(t, "version: 1\ndependencies: {web: {}}\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, upgraded_timeout: 300ms, stall_timeout: 200ms, forward: [{host: "+host+", ports: [\""+port+"\"], dependency: web}]}\n  max_upgraded: 1\n")
	client := &http.Transport{Protocols: plainHTTP2()}
	defer client.CloseIdleConnections()
	in, out := io.Pipe()
	defer out.Close()
	resp, err := client.RoundTrip(&http.Request{
		Method: http.MethodConnect, URL: &url.URL{Scheme: "http", Host: r.proxy.Addr("127.0.0.1:0").String()}, Host: l.Addr().String(),
		Header: http.Header{}, Body: in, ContentLength: -1,
	})
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	<-ended
	looks, until := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer looks.Stop()
	for r.proxy.Stats().Upgraded != 0 {
		select {
		case <-looks.C:
		case <-until:
			t.Fatalf("%+v: the tunnel still has its place", r.proxy.Stats())
		}
	}
}
