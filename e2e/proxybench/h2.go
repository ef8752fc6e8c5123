package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// both is a listener, or a server, of HTTP/1.1 and of HTTP/2 in plain text.
func both() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// only2 is a client of HTTP/2 in plain text.
func only2() *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: p, DisableCompression: true}
}

// asCame sends requests on over the protocol over which they came.
type asCame struct{ one, two *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (a asCame) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ProtoMajor == 2 {
		return a.two.RoundTrip(r)
	}
	return a.one.RoundTrip(r)
}

// message is one of gRPC, with n bytes.
func message(n int) string {
	return fmt.Sprintf("\x00\x00\x00%c%c", n>>8, n&0xff) + strings.Repeat("m", n)
}

// call answers as a server of gRPC does.
func call(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = io.WriteString(w, message(100))
	w.Header().Set("Grpc-Status", "0")
}

// send2 sends n requests over one connection of HTTP/2, some at once.
func send2(at string, w work, n int) error {
	client := only2()
	defer client.CloseIdleConnections()
	if err := ask2(client, at, w, 1); err != nil { // so that there is one connection
		return err
	}
	errs := make(chan error, w.streams)
	for range w.streams {
		go func() { errs <- ask2(client, at, w, n/w.streams) }()
	}
	var all []error
	for range w.streams {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

func ask2(client *http.Transport, at string, w work, n int) error {
	for range n {
		req, err := http.NewRequest(http.MethodGet, "http://"+at+"/100", nil)
		if w.call {
			req, err = http.NewRequest(http.MethodPost, "http://"+at+"/shop.Orders/Get", strings.NewReader(message(1024)))
			req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
		}
		if err != nil {
			return err
		}
		resp, err := client.RoundTrip(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil && (resp.StatusCode != http.StatusOK || w.call && resp.Trailer.Get("Grpc-Status") != "0") {
			err = fmt.Errorf("%s %v", resp.Status, resp.Trailer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
