package fleet

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A seen is a call as the witness has it.
type seen struct {
	sent, came time.Duration // since the witness began
	process    uint32
}

// A witness is the dependency: it answers each call with one byte, good or bad, and notes who made it.
type witness struct {
	listener net.Listener
	began    time.Time

	failing  atomic.Bool  // it answers that each call has failed
	poisoned atomic.Int64 // or those of one process, by its number and one; 0 means none

	mu  sync.Mutex // guards all
	all []seen
}

// The answers.
const (
	good byte = iota
	bad
)

// A message is the process and the time when it sent it.
const messageSize = 4 + 8

func newWitness() (*witness, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &witness{listener: l, began: time.Now()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(conn)
		}
	}()
	return w, nil
}

func (w *witness) serve(conn net.Conn) {
	defer conn.Close()
	var message [messageSize]byte
	for {
		if _, err := io.ReadFull(conn, message[:]); err != nil {
			return
		}
		sent := time.Unix(0, int64(binary.BigEndian.Uint64(message[4:])))
		w.mu.Lock()
		w.all = append(w.all, seen{sent.Sub(w.began.Round(0)), time.Since(w.began), binary.BigEndian.Uint32(message[:4])})
		w.mu.Unlock()
		answer := good
		if process := binary.BigEndian.Uint32(message[:4]); w.failing.Load() || w.poisoned.Load() == int64(process)+1 {
			answer = bad
		}
		if _, err := conn.Write([]byte{answer}); err != nil {
			return
		}
	}
}

func (w *witness) now() time.Duration { return time.Since(w.began) }

func (w *witness) close() { w.listener.Close() }

// between returns the calls that were sent from one time to another.
func (w *witness) between(from, to time.Duration) (some []seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.all {
		if s.sent >= from && s.sent < to {
			some = append(some, s)
		}
	}
	return some
}

// worst is the most calls in any span of that length, by when they were sent or came, and when it began.
func worst(all []seen, span time.Duration, of func(seen) time.Duration) (most int, at time.Duration) {
	times := make([]time.Duration, len(all))
	for i, s := range all {
		times[i] = of(s)
	}
	slices.Sort(times)
	first := 0
	for i, t := range times {
		for t-times[first] >= span {
			first++
		}
		if n := i - first + 1; n > most {
			most, at = n, times[first]
		}
	}
	return most, at
}

func bySent(s seen) time.Duration { return s.sent }
func byCame(s seen) time.Duration { return s.came }

// jain is Jain's index of how equal the processes' calls are: 1 if they are, 1/n if one has all.
func jain(all []seen, processes []uint32) float64 {
	count := map[uint32]float64{}
	for _, s := range all {
		count[s.process]++
	}
	var sum, squares float64
	for _, p := range processes {
		sum += count[p]
		squares += count[p] * count[p]
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(processes)) * squares)
}
