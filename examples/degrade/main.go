// Command degrade shows what a shop does as it has less and less to work with: it leaves out what
// is optional, shares what is left, and refuses in time what it can't do. It is the program of
// docs/patterns/degradation.md, and needs no network.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gabion-go/gabion"
)

func main() {
	if err := play(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// errDown is the error of a dial to a port where no server listens.
var errDown = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// A world is what the shop asks, and what is wrong with it.
type world struct {
	stockDown, tipsDown atomic.Bool // connections are refused
	tipsHang            atomic.Bool // no answer comes
	slow                atomic.Bool // the warehouse answers when gate is closed
	gate                chan struct{}
}

func (w *world) stock(ctx context.Context) (string, error) {
	if w.slow.Load() {
		select {
		case <-w.gate:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	if w.stockDown.Load() {
		return "", errDown
	}
	return "lamp, 3 left", nil
}

func (w *world) tips(ctx context.Context) (string, error) {
	switch {
	case w.tipsHang.Load():
		<-ctx.Done()
		return "", context.Cause(ctx)
	case w.tipsDown.Load():
		return "", errDown
	}
	return "others bought: shades", nil
}

// play shows states of the shop, each worse than the one before.
func play(ctx context.Context, out io.Writer) error {
	w := &world{gate: make(chan struct{})}
	s, err := open(w.stock, w.tips, gabion.WithSeed(1)) // the same calls as ever
	if err != nil {
		return err
	}
	door := front(s, 4)
	ask := func(who, path string) string {
		r := httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx)
		r.Header.Set("Customer", who)
		answer := httptest.NewRecorder()
		door.ServeHTTP(answer, r)
		if why := answer.Header().Get("Gabion-Refused"); why != "" {
			return fmt.Sprint(answer.Code, " ", why)
		}
		return fmt.Sprint(answer.Code, " ", strings.TrimSpace(answer.Body.String()))
	}

	fmt.Fprintln(out, "all is well:      ", ask("ann", "/item"))
	w.tipsHang.Store(true)
	fmt.Fprintln(out, "tips hang:        ", ask("ann", "/item"))
	w.tipsHang.Store(false)
	w.tipsDown.Store(true)
	fmt.Fprintln(out, "tips are down:    ", ask("ann", "/item"))

	// One customer exports all it has, and the warehouse is slow. Two of four slots and half
	// of the queue are all that it gets.
	w.slow.Store(true)
	var exports sync.WaitGroup
	const many = 200
	for range many {
		exports.Go(func() { ask("bulk", "/export") })
	}
	for door.Stats().OverShare+int64(door.Stats().InUse)+int64(door.Stats().Queued) < many {
		time.Sleep(time.Millisecond)
	}
	stats := door.Stats()
	fmt.Fprintf(out, "200 exports:       %d at work, %d wait, %d refused\n", stats.InUse, stats.Queued, stats.OverShare)
	order := make(chan string)
	go func() { order <- ask("ann", "/order") }() // there is a slot for her
	for door.Stats().InUse < 3 {
		time.Sleep(time.Millisecond)
	}
	w.slow.Store(false)
	close(w.gate)
	fmt.Fprintln(out, "an order meanwhile:", <-order)
	exports.Wait()

	w.stockDown.Store(true)
	fmt.Fprintln(out, "stock is down:    ", ask("ann", "/item"))
	return nil
}
