package sqlletters

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// Bounds of what is settled in one transaction.
const (
	mostSettled  = 64
	settleWithin = 10 * time.Second
)

// A settlement is a verdict that waits for its transaction.
type settlement struct {
	deadletter.Lease
	verdict deadletter.Verdict
	err     error
	done    chan struct{} // closed when err is set
}

// A settling makes the verdicts that come during one transaction the next one: each needs the row
// of its redrive, so that transactions of their own would wait for each other.
type settling struct {
	change func(context.Context, deadletter.ID, func(*tx) error) error

	mu    sync.Mutex // guards all below
	queue []*settlement
	busy  bool // there is a goroutine
}

// add queues a verdict, and reports whether a goroutine has to be started.
func (q *settling) add(one *settlement) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, one)
	first, q.busy = !q.busy, true
	return first
}

// take returns what to settle next. After none the goroutine ends.
func (q *settling) take() (batch []*settlement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.queue), mostSettled)
	batch = slices.Clone(q.queue[:n])
	q.queue = slices.Delete(q.queue, 0, n)
	q.busy = n > 0
	return batch
}

// Settle implements [deadletter.Store]. It returns early when ctx ends: the verdict may then still
// be written.
func (s *Store) Settle(ctx context.Context, l deadletter.Lease, v deadletter.Verdict) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	one := &settlement{Lease: l, verdict: v, done: make(chan struct{})}
	if s.settles.add(one) {
		go s.settles.run()
	}
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run settles what is queued.
func (q *settling) run() {
	for batch := q.take(); len(batch) > 0; batch = q.take() {
		q.settle(batch)
	}
}

// settle settles letters in one transaction. If it fails, each has one of its own.
func (q *settling) settle(batch []*settlement) {
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	slices.SortFunc(batch, func(a, b *settlement) int { return strings.Compare(string(a.ID), string(b.ID)) })
	said := new([]error)
	err := q.change(ctx, "", func(t *tx) (err error) {
		*said, err = t.settle(batch)
		return err
	})
	if err != nil && len(batch) > 1 {
		for i := range batch {
			q.settle(batch[i : i+1])
		}
		return
	}
	for i, one := range batch {
		if one.err = err; err == nil {
			one.err = clear((*said)[i])
		}
		close(one.done)
	}
}

// settle returns what is said of each letter.
func (t *tx) settle(batch []*settlement) (said []error, err error) {
	courses := map[string]deadletter.Course{}
	for _, group := range groupsOf(batch) {
		if courses[group], err = t.course(group); err != nil {
			return nil, err
		}
	}
	letters, err := t.loadAll(idsOf(batch))
	if err != nil {
		return nil, err
	}
	for _, one := range batch {
		r := letters[one.ID]
		next, changed, no := r.Settle(one.Token, one.verdict, t.now)
		if said = append(said, no); no != nil || !changed {
			continue
		}
		letters[one.ID] = next
		if err := t.save(r, next); err != nil {
			return nil, err
		}
		if c := courses[r.Group]; c.ID == r.Drive {
			courses[r.Group] = c.Settle(r, one.verdict)
		}
	}
	for _, c := range courses {
		if err := t.saveCourse(c); err != nil {
			return nil, err
		}
	}
	return said, nil
}

func idsOf(batch []*settlement) (ids []deadletter.ID) {
	for _, one := range batch {
		ids = append(ids, one.ID)
	}
	return slices.Compact(ids) // they are sorted
}

// groupsOf returns the groups of letters, always in the same order.
func groupsOf(batch []*settlement) (groups []string) {
	for _, one := range batch {
		groups = append(groups, one.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}
