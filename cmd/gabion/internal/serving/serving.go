// Package serving is how a command serves a page to the browsers of this machine.
package serving

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// Listen listens at an address, and returns what a browser on this machine calls it.
// It is open if other machines may reach it as well.
func Listen(at string) (l net.Listener, url string, open bool, err error) {
	l, err = net.Listen("tcp", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, "", false, fmt.Errorf("%w: another program has this port; port 0 takes one that is free", err)
	case err != nil:
		return nil, "", false, err
	}
	url, open = reached(l.Addr())
	return l, url, open, nil
}

// reached says under which URL a browser on this machine finds what listens there, and
// whether other machines may reach it as well.
func reached(at net.Addr) (url string, open bool) {
	on, _ := at.(*net.TCPAddr)
	if on != nil && on.IP.IsUnspecified() { // no browser goes to [::]
		return fmt.Sprintf("http://127.0.0.1:%d/", on.Port), true
	}
	return "http://" + at.String() + "/", on == nil || !on.IP.IsLoopback()
}

// Guard hands requests on to a page that is for this machine: a name that some site has
// made point to it is not answered.
func Guard(url string, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if host != "localhost" && net.ParseIP(host) == nil {
			http.Error(w, "This page is served at "+url, http.StatusForbidden)
			return
		}
		page.ServeHTTP(w, r)
	})
}
