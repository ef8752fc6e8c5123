package gabionproxy

import (
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// noted is a client over HTTP/2, who notes which of its waits were ended.
type noted struct {
	http.ResponseWriter
	ended []string
	slow  time.Duration // what a flush takes
}

func (n *noted) Write(p []byte) (int, error) { return len(p), nil }

func (n *noted) FlushError() error { time.Sleep(n.slow); return nil }

func (n *noted) SetWriteDeadline(at time.Time) error {
	if at.Before(time.Now()) {
		n.ended = append(n.ended, "write")
	} else {
		n.ended = append(n.ended, "end")
	}
	return nil
}

func (n *noted) SetReadDeadline(time.Time) error { n.ended = append(n.ended, "read"); return nil }

// sleeps is a body that comes after a while.
type sleeps time.Duration

func (s sleeps) Read([]byte) (int, error) { time.Sleep(time.Duration(s)); return 0, io.EOF }

func (sleeps) Close() error { return nil }

func TestAWaitOverHTTP2EndsWhenItIsTooLong(t *testing.T) {
	const stall = time.Minute
	for name, c := range map[string]struct {
		does func(*patient, *noted)
		want []string
	}{
		"a flush in time":                    {func(w *patient, n *noted) { n.slow = stall - 1; w.FlushError() }, nil},
		"flushes that are long together":     {func(w *patient, n *noted) { n.slow = stall - 1; w.FlushError(); w.FlushError(); w.FlushError() }, nil},
		"a flush that is too long":           {func(w *patient, n *noted) { n.slow = stall + 1; w.FlushError() }, []string{"write"}},
		"the same after some that were not":  {func(w *patient, n *noted) { w.FlushError(); time.Sleep(stall / 2); n.slow = stall + 1; w.FlushError() }, []string{"write"}},
		"silence between flushes":            {func(w *patient, n *noted) { w.FlushError(); time.Sleep(3 * stall); w.FlushError() }, nil},
		"a body in time":                     {func(w *patient, n *noted) { reads(w, stall-1); reads(w, stall-1) }, nil},
		"a body that is too late":            {func(w *patient, n *noted) { reads(w, stall+1) }, []string{"read"}},
		"a body after the answer has begun":  {func(w *patient, n *noted) { w.FlushError(); reads(w, 3*stall) }, nil},
		"a read that outlives the handler":   {func(w *patient, n *noted) { go reads(w, 3*stall); synctest.Wait(); w.end() }, nil},
		"a read that begins after the end":   {func(w *patient, n *noted) { w.end(); reads(w, 3*stall) }, nil},
		"bytes that are left for the end":    {func(w *patient, n *noted) { w.Write(nil); w.end() }, []string{"end"}},
		"no bytes that are left for the end": {func(w *patient, n *noted) { w.Write(nil); w.FlushError(); w.end() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := new(noted)
				w := &patient{ResponseWriter: n, control: *http.NewResponseController(n), stall: stall, streams: true}
				w.until.Store(math.MinInt64) // epoch is no time of the bubble
				c.does(w, n)
				time.Sleep(5 * stall)
				w.waits.end()
				if !slices.Equal(n.ended, c.want) {
					t.Errorf("%q, not %q", n.ended, c.want)
				}
			})
		})
	}
}

// While the timer rings for one wait, another begins that lasts longer: the sooner one is not put off.
func TestATimerIsNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(noted)
		w := &patient{ResponseWriter: n, control: *http.NewResponseController(n), stall: time.Minute, streams: true}
		w.waits.reading.Store(int64(time.Since(epoch)))
		w.waits.ringIn(time.Second, w)
		w.waits.ringIn(time.Hour, w)
		time.Sleep(2 * time.Minute)
		w.waits.end()
		if !slices.Equal(n.ended, []string{"read"}) {
			t.Errorf("%q, and a read is over", n.ended)
		}
	})
}

func reads(w *patient, lasts time.Duration) {
	if _, err := (&patientBody{ReadCloser: sleeps(lasts), w: w}).Read(nil); !errors.Is(err, io.EOF) {
		panic(err)
	}
}

// giving is a client of HTTP/1 whose reader is about to give it time when something else ends the wait.
type giving struct {
	http.ResponseWriter
	gives, ends chan bool
	ended       bool
	until       time.Time
}

func (g *giving) SetReadDeadline(at time.Time) error {
	switch {
	case at.After(time.Now()) && !g.ended:
		close(g.gives)
		<-g.ends
	case !g.ended:
		g.ended = true
		defer close(g.ends)
	}
	g.until = at
	return nil
}

func (g *giving) SetWriteDeadline(time.Time) error { return nil }

// Read is the client's body, of which no byte comes.
func (g *giving) Read([]byte) (int, error) {
	time.Sleep(time.Until(g.until))
	return 0, os.ErrDeadlineExceeded
}

func (g *giving) Close() error { return nil }

func TestTheEndOfARequestIsNotPutOffByAReadThatBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &giving{gives: make(chan bool), ends: make(chan bool)}
		e := &exchange{turns: true}
		e.client = patient{ResponseWriter: client, control: *http.NewResponseController(client), stall: time.Minute}
		e.client.until.Store(math.MaxInt64)
		r := &http.Request{ContentLength: 5, Body: &patientBody{ReadCloser: client, w: &e.client}}
		e.body = new(replays).remember(r, 0)
		e.body.attach(r)
		go r.Body.Read(make([]byte, 5))
		<-client.gives
		began := time.Now()
		e.forget()
		if late := time.Since(began); late != 0 {
			t.Errorf("the end was %v late", late)
		}
	})
}
