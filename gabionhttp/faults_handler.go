package gabionhttp

import (
	"context"
	"fmt"
	"net"
	"net/http"
)

// Handler returns next with faults: what its callers see is what those of a server with
// these faults would. Base means nothing here. A handler can't refuse connections, so that
// down is what reset is.
func (f *Faults) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, has := r.Header[HeaderFault]
		met, err := f.choose(r, asked)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if has {
			clean := *r
			clean.Header = r.Header.Clone()
			clean.Header.Del(HeaderFault)
			r = &clean
		}
		if met.Kind == "" {
			next.ServeHTTP(w, r)
			return
		}
		met.serve(w, r, next)
	})
}

// serve answers a request that meets the fault.
func (f Fault) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	switch f.Kind {
	case "down", "reset":
		disconnect(w)
	case "black_hole":
		_ = wait(r.Context(), maxAdd)
		disconnect(w)
	case "lost_answers":
		next.ServeHTTP(discarded{}, r)
		disconnect(w)
	case "errors":
		if f.AfterWork {
			next.ServeHTTP(discarded{}, r)
		}
		f.mark(w.Header())
		http.Error(w, f.text(), f.status())
	case "slow":
		if wait(r.Context(), f.Add) != nil {
			disconnect(w) // its caller has gone
			return
		}
		f.mark(w.Header())
		next.ServeHTTP(w, r)
	default:
		f.mark(w.Header())
		body := &faultyAnswer{ResponseWriter: w, ctx: r.Context(), fault: f}
		next.ServeHTTP(body, r)
		if f.Kind == "cut_body" {
			panic(http.ErrAbortHandler) // in the middle of the answer
		}
	}
}

// disconnect ends the connection without an answer.
func disconnect(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 has streams to end, and no connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset; failing that, an orderly end
	}
	_ = conn.Close()
}

// discarded is a ResponseWriter that drops the answer.
type discarded http.Header

// Header implements http.ResponseWriter.
func (d discarded) Header() http.Header { return http.Header(d) }

// Write implements http.ResponseWriter.
func (discarded) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (discarded) WriteHeader(int) {}

// faultyAnswer writes an answer late, or only its first byte.
type faultyAnswer struct {
	http.ResponseWriter
	ctx   context.Context
	fault Fault
	begun bool
}

// Unwrap is for http.ResponseController.
func (a *faultyAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write implements http.ResponseWriter.
func (a *faultyAnswer) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	first := !a.begun
	a.begun = true
	switch {
	case a.fault.Kind == "cut_body" && !first:
		return len(b), nil
	case a.fault.Kind == "cut_body":
		_, err := a.ResponseWriter.Write(b[:1])
		_ = http.NewResponseController(a.ResponseWriter).Flush()
		return len(b), err
	case first:
		_ = http.NewResponseController(a.ResponseWriter).Flush()
		if err := wait(a.ctx, a.fault.Add); err != nil {
			return 0, fmt.Errorf("the caller has gone: %w", err)
		}
	}
	return a.ResponseWriter.Write(b)
}
