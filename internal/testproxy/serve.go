package testproxy

import (
	"net"
	"sync"
	"testing"
)

// Serve is a server that does with each connection what each does, and closes it afterwards. It
// returns the server's address. At the end of the test all connections are closed, and Serve waits for
// what still uses them.
func Serve(t testing.TB, each func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards open and over
	open, over := map[net.Conn]bool{}, false
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if open[conn] = true; over {
				conn.Close()
			}
			mu.Unlock()
			all.Go(func() {
				defer func() {
					conn.Close()
					mu.Lock()
					defer mu.Unlock()
					delete(open, conn)
				}()
				each(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		over = true
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}
