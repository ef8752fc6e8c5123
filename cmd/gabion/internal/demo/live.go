package demo

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/serving"
	"github.com/gabion-go/gabion/dashboard"
)

// live serves the live page of the run that goes on. It has an address for the whole
// program, and a page of its own for each run.
type live struct {
	address string
	open    bool // not only to this machine
	server  *http.Server
	page    atomic.Pointer[dashboard.Page]
}

// noPage is the address that means to serve none.
const noPage = "off"

// goLive serves the page at an address of this machine. With noPage it serves none, and
// returns nil.
func goLive(address string) (*live, error) {
	if address == noPage {
		return nil, nil
	}
	listener, url, open, err := serving.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("serve the live page at %q, which wants a free host:port, such as 127.0.0.1:8080, or %s: %w", address, noPage, err)
	}
	l := &live{address: url, open: open}
	l.page.Store(dashboard.New(dashboard.Config{Title: title}))
	l.server = &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler:           serving.Guard(url, http.HandlerFunc(l.serve)),
	}
	go func() { _ = l.server.Serve(listener) }() // it ends with close
	return l, nil
}

// serve serves the page of the run that goes on. The page has buttons.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	l.page.Load().ServeHTTP(w, r)
}

// The page is gabion's own, and shows each client alike: it counts what a call returned,
// however late. The table alone knows how long the shop waits.
const title = "gabion demo: one outage, four clients (late successes count here)"

// begin makes the page of a run, and returns what the clients that are not gabion's tell.
// The streams of the last page end, and browsers come back by themselves.
func (l *live) begin(d *gabion.Dependency) (seen gabion.Observer) {
	if l == nil {
		return nil
	}
	next := dashboard.New(dashboard.Config{Title: title, Dependencies: []*gabion.Dependency{d}, AllowOverrides: true})
	_ = l.page.Swap(next).Close()
	return next
}

// introduce says where the page is.
func (l *live) introduce(w io.Writer, p paint) {
	if l == nil {
		return
	}
	fmt.Fprintln(w, "  "+p.bold("Watch it in a browser")+"  "+l.address)
	for _, line := range wrap(fmt.Sprintf("The page knows no limit of %.0f s: there a late success counts, whichever client's it is. "+
		"The table counts it as none.", inTime.Seconds()), minWidth-4) {
		fmt.Fprintln(w, "  "+line)
	}
	if l.open {
		fmt.Fprintln(w, "  Anyone who can reach this machine can watch it too, and use its buttons.")
	}
	fmt.Fprintln(w)
}

// watched reports whether the page has viewers.
func (l *live) watched() bool { return l != nil && l.page.Load().Viewers() > 0 }

func (l *live) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.page.Load().Close(), l.server.Close())
}
