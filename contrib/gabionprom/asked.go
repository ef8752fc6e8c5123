package gabionprom

import (
	"context"
	"errors"
	"sync"
	"time"
)

// How a store is asked. A scrape must not wait for a database, and a database must not be asked by
// each of many servers that scrape.
const (
	lettersEvery = 10 * time.Second       // a store of letters is asked at most so often
	outboxEvery  = time.Minute            // likewise an outbox, which counts rows
	askedWait    = 500 * time.Millisecond // so long a scrape waits for answers
	askedTime    = 10 * time.Second       // so long a store has
	askedStale   = time.Minute            // after that, or two turns, what it said is not exposed any more
)

// asked is what a store says now and then.
type asked[T any] struct {
	read  func(context.Context) (T, error)
	every time.Duration

	mu     sync.Mutex
	asked  time.Time     // when it was asked last
	asking chan struct{} // closed when it has answered; nil while it is not asked
	up     bool
	at     time.Time // of what follows
	said   T
}

// begin asks the store if the last time was long enough ago. It returns what is closed when the
// store has answered, nil if it is not being asked. A store that does not come back is asked once.
func (l *asked[T]) begin() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking == nil && (l.asked.IsZero() || time.Since(l.asked) >= l.every) {
		l.asked, l.asking = time.Now(), make(chan struct{})
		go l.ask(l.asking)
	}
	return l.asking
}

// now returns what the store said last, and whether it answered when it was asked last. It
// begins, and waits for the answer until then.
func (l *asked[T]) now(until time.Time) (said T, up bool) {
	if asking := l.begin(); asking != nil {
		patience := time.NewTimer(time.Until(until))
		select {
		case <-asking:
		case <-patience.C:
		}
		patience.Stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	up = l.up && (l.asking == nil || time.Since(l.asked) < askedTime)
	if !l.at.IsZero() && time.Since(l.at) <= max(askedStale, 2*l.every) {
		said = l.said
	}
	return said, up
}

// ask asks the store, whose panic is no reason to end the program.
func (l *asked[T]) ask(done chan struct{}) {
	var said T
	err := errors.New("it panicked")
	defer func() {
		_ = recover()
		l.mu.Lock()
		defer l.mu.Unlock()
		defer close(done)
		l.asking, l.up = nil, err == nil
		if err == nil {
			l.at, l.said = time.Now(), said
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), askedTime)
	defer cancel()
	said, err = l.read(ctx)
}
