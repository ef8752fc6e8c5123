package idempotency

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// early answers before it has read the body, and more when it has. What it meets there
// does not matter to it.
func early(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out := http.NewResponseController(w)
		out.EnableFullDuplex() // over HTTP/1.1 there would be no body left
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, "early ")
		out.Flush()
		if status < 300 || r.ProtoMajor == 1 { // net/http's client of HTTP/2 sends no more of the body to who answers with an error
			io.Copy(io.Discard, r.Body)
		}
		io.WriteString(w, "late")
	}
}

// overflows answers with more than is kept before it has read the body.
func overflows(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Content-Length", "2000000")
	io.WriteString(w, strings.Repeat("x", 2_000_000))
	io.Copy(io.Discard, r.Body)
}

// A response that began as a success and turns out not to be one is broken off: its client gets
// an error when it reads, as it would without an answer, and asks again.
func TestAnswersThatAreBrokenOff(t *testing.T) { overWires(t, answersThatAreBrokenOff) }

func answersThatAreBrokenOff(t *testing.T, wire string) {
	events := []string{"Content-Type", "text/event-stream"}
	readNothing := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(events[0], events[1])
		io.WriteString(w, "early late")
		w.(http.Flusher).Flush()
	}
	for _, c := range []struct {
		name      string
		guarantee Guarantee
		body      string
		work      http.HandlerFunc
		status    int
		whole     bool // the first answer came to its end
		state     State
		second    int // of the same request with the body that the digest says
		runs      int64
	}{
		{"whole, hold", GuaranteeHold, large, early(201), 201, true, StateDone, 201, 1},
		{"whole, reexecute", GuaranteeReexecute, large, early(201), 201, true, StateDone, 201, 1},
		{"altered, hold", GuaranteeHold, altered, early(201), 201, false, StateUnknown, 409, 1},
		{"altered, reexecute", GuaranteeReexecute, altered, early(201), 201, false, StateRetryable, 201, 2},
		{"altered, without effect, hold", GuaranteeHold, altered, declares(NoEffect, early(201)), 201, false, StateRetryable, 201, 2},
		{"altered, the length was said, hold", GuaranteeHold, altered, early(201, "Content-Length", "10"), 201, false, StateUnknown, 409, 1},
		{"altered, more than is kept, hold", GuaranteeHold, altered, overflows, 200, false, StateUnknown, 409, 1},
		{"altered, more than is kept, reexecute", GuaranteeReexecute, altered, overflows, 200, false, StateRetryable, 200, 2},
		{"an error says so itself, hold", GuaranteeHold, altered, early(400), 400, true, StateDone, 400, 1},
		{"an error says so itself, reexecute", GuaranteeReexecute, altered, early(500), 500, true, StateRetryable, 500, 2},
		{"inside a transaction nothing is early", GuaranteeTx, altered, early(201), 400, true, StateAbsent, 201, 2},
		{"events, whole: the record was made before", GuaranteeHold, large, early(200, events...), 200, true, StateUnknown, 409, 1},
		{"events, altered", GuaranteeHold, altered, early(200, events...), 200, false, StateUnknown, 409, 1},
		{"events, altered, reexecute", GuaranteeReexecute, altered, early(200, events...), 200, false, StateUnknown, 409, 1},
		{"events, nothing was read: the change is not seen", GuaranteeHold, altered, readNothing, 200, true, StateUnknown, 409, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee}}, c.work)
			first, err := u.wire.fetch(u.wire.request(post("k", c.body, headerDigest, sum256(large))))
			if first.Code != c.status || (err == nil) != c.whole {
				t.Errorf("first %d with %d bytes, %v", first.Code, first.Body.Len(), err)
			}
			if got := u.state(); got != c.state {
				t.Errorf("the record is %v, want %v", got, c.state)
			}
			if n := u.seen.count(eventBrokenOff); c.whole != (n == 0) || n > 1 {
				t.Errorf("told %d times that an answer was broken off", n)
			}
			second, err := u.wire.fetch(u.wire.request(post("k", large, headerDigest, sum256(large))))
			if second.Code != c.second || err != nil {
				t.Errorf("second %d %.100q, %v", second.Code, second.Body, err)
			}
			u.wantRuns(c.runs)
		})
	}
}

// net/http leaves a handler no body once the first of its answer is sent over HTTP/1.1,
// unless it asks for that.
func TestEarlyAnswerWithoutFullDuplex(t *testing.T) { overWires(t, earlyAnswerWithoutFullDuplex) }

func earlyAnswerWithoutFullDuplex(t *testing.T, wire string) {
	errs := make(chan error, 1)
	u := newUploads(t, wire, Config{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "early")
		w.(http.Flusher).Flush()
		_, err := io.Copy(io.Discard, r.Body)
		errs <- err
	})
	_, err := u.wire.fetch(u.wire.request(post("k", large, headerDigest, sum256(large))))
	read := <-errs
	if lost := errors.Is(read, http.ErrBodyReadAfterClose); lost != (wire == http1) || (err != nil) != lost {
		t.Errorf("the handler read %v, the client %v", read, err)
	}
}

// A run whose record another run holds by its end: its client must not take for a success what
// may have been settled otherwise.
func TestAnswerOfALostRunIsBrokenOff(t *testing.T) { overWires(t, answerOfALostRunIsBrokenOff) }

func answerOfALostRunIsBrokenOff(t *testing.T, wire string) {
	for _, c := range []struct {
		guarantee Guarantee
		status    int
		whole     bool
	}{{GuaranteeHold, 201, false}, {GuaranteeHold, 400, false}, {GuaranteeReexecute, 201, true}} {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee}}, early(c.status))
		r.h.store = thief{r.store}
		r.over(wire)
		got, err := r.wire.fetch(r.wire.request(post("k", "x")))
		if got.Code != c.status || (err == nil) != c.whole {
			t.Errorf("%v: %d %q, %v", c.guarantee, got.Code, got.Body, err)
		}
	}
}
