package demo

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/dashboard"
)

// live serves the live page of the run that goes on. It has an address for the whole
// program, and a page of its own for each run.
type live struct {
	address string
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
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve the live page: %w", err)
	}
	l := &live{address: "http://" + listener.Addr().String() + "/"}
	l.page.Store(dashboard.New(dashboard.Config{Title: title}))
	l.server = &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler:           http.HandlerFunc(l.serve),
	}
	go func() { _ = l.server.Serve(listener) }() // it ends with close
	return l, nil
}

// serve serves the page of the run that goes on. The page has buttons, and is for this
// machine: a name that some site has made point to it is not answered.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	if host, _, err := net.SplitHostPort(r.Host); err != nil || host != "localhost" && net.ParseIP(host) == nil {
		http.Error(w, "This page is served at "+l.address, http.StatusForbidden)
		return
	}
	l.page.Load().ServeHTTP(w, r)
}

const title = "gabion demo: one outage, four clients"

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
	if l != nil {
		fmt.Fprintln(w, "  "+p.bold("Watch it in a browser")+"  "+l.address+"\n")
	}
}

// watched reports whether somebody looks at the page.
func (l *live) watched() bool { return l != nil && l.page.Load().Viewers() > 0 }

func (l *live) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.page.Load().Close(), l.server.Close())
}
