package flaky

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// maxBody is how much of a request's body is read. A server that did not read it would not
// notice that its caller has gone.
const maxBody = 10 << 20

// readBody reads the request's body, and keeps it for the handler.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return false // the caller has gone
	case len(body) > maxBody:
		http.Error(w, fmt.Sprintf("gabion flaky reads at most %d bytes", maxBody), http.StatusRequestEntityTooLarge)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// play does on the socket what the plan decided.
func (s *Server) play(w http.ResponseWriter, r *http.Request, reply sim.Reply) {
	answer := &answer{header: http.Header{}}
	if reply.Worked {
		s.work(answer, r, reply)
	}
	switch {
	case reply.Refused || reply.Status == 0:
		reset(w)
		return
	case reply.Status != http.StatusOK:
		answer = refusal(reply)
	}
	s.send(w, r, answer, reply)
}

// work lets the handler answer.
func (s *Server) work(w *answer, r *http.Request, reply sim.Reply) {
	if s.handler != nil {
		s.handler.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
		return
	}
	w.header.Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, "{\"ok\":true,\"request\":%d,\"executions\":%d}\n", reply.Try, reply.Effects)
}

// refusal is an answer that is an error.
func refusal(reply sim.Reply) *answer {
	a := &answer{header: http.Header{"Content-Type": {"application/json"}}, status: reply.Status}
	if code, ok := outcome.CodeOf(reply.Status); ok { // gRPC tells it without a message, beside a 200
		a.header.Set("Content-Type", "application/grpc")
		a.header.Set("Grpc-Status", strconv.Itoa(int(code)))
		a.status = http.StatusOK
		return a
	}
	if reply.After > 0 {
		a.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(reply.After.Seconds()))))
	}
	if reply.Stop {
		a.header.Set("X-Should-Retry", "false")
	}
	if reply.Shed != "" {
		a.header.Set(gabionhttp.HeaderRefused, reply.Shed)
	}
	_, _ = fmt.Fprintf(a, "{\"title\":%q,\"status\":%d}\n", "gabion flaky: by plan", reply.Status)
	return a
}

// send writes an answer, as slowly as the plan says and not always all of it.
func (s *Server) send(w http.ResponseWriter, r *http.Request, a *answer, reply sim.Reply) {
	body := a.body.Bytes()
	h := w.Header()
	for name, values := range a.header {
		h[name] = values
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(max(a.status, http.StatusOK))
	half := len(body) / 2
	if !reply.CutBody && reply.Body == 0 {
		half = len(body)
	}
	_, _ = w.Write(body[:half]) // the client may have left
	if half == len(body) && half > 0 {
		return
	}
	_ = http.NewResponseController(w).Flush()
	if !s.pause(r, reply.Body) || reply.CutBody {
		panic(http.ErrAbortHandler) // the connection ends in the middle of the answer
	}
	_, _ = w.Write(body[half:])
}

// pause waits for d, and reports false if caller or server is gone before.
func (s *Server) pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.quit:
	}
	return false
}

// reset cuts the connection the hard way: the caller sees "connection reset by peer", and
// can't tell whether the work was done.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2, or a recorder: that is how they end a request
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // failing that, an orderly end will do
	}
	_ = conn.Close()
}

// answer is what a handler wrote.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}
