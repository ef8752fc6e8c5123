package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

var errDown = errors.New("the database is down")

// A fake is a table in memory.
type fake struct {
	mu    sync.Mutex
	rows  []*row // those that wait
	aside map[string][]*row
	due   map[string]time.Time // of what is aside; zero for what is parked
	token int64
	until time.Time
	taken bool             // by another relay, which renews its lease
	fails map[string]error // by the name of the method
	calls map[string]int
}

func newFake(text string) *fake {
	return &fake{rows: batchOf(text), aside: map[string][]*row{}, due: map[string]time.Time{}, fails: map[string]error{}, calls: map[string]int{}}
}

func (f *fake) called(name string) (unlock func(), err error) {
	f.mu.Lock()
	f.calls[name]++
	return f.mu.Unlock, f.fails[name]
}

// count is how often a method was called.
func (f *fake) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

func (f *fake) fail(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails[name] = err
}

func (f *fake) acquire(_ context.Context, _ string, length time.Duration) (int64, time.Duration, error) {
	unlock, err := f.called("acquire")
	defer unlock()
	if f.taken {
		return 0, length, err
	}
	if left := time.Until(f.until); err != nil || left > 0 && left <= 2*length {
		return 0, left, err
	}
	f.token++
	f.until = time.Now().Add(length)
	return f.token, 0, nil
}

func (f *fake) renew(_ context.Context, token int64, length time.Duration) (bool, error) {
	unlock, err := f.called("renew")
	defer unlock()
	if err != nil || token != f.token {
		return false, err
	}
	f.until = time.Now().Add(length)
	return true, nil
}

func (f *fake) release(_ context.Context, token int64) error {
	unlock, err := f.called("release")
	defer unlock()
	if err == nil && token == f.token {
		f.until = time.Time{}
	}
	return err
}

func (f *fake) waiting(_ context.Context, except []int64, limit int) (batch []*row, cut bool, err error) {
	unlock, err := f.called("waiting")
	defer unlock()
	for _, x := range f.rows {
		if _, blocked := f.aside[x.Aggregate]; err == nil && len(batch) < limit && !slices.Contains(except, x.seq) && (x.Aggregate == "" || !blocked) {
			batch = append(batch, &row{Message: x.Message, seq: x.seq, attempts: x.attempts})
		}
	}
	return batch, false, err
}

func (f *fake) published(_ context.Context, seqs []int64, _ int64, _ time.Duration) error {
	unlock, err := f.called("published")
	defer unlock()
	if err == nil {
		f.rows = slices.DeleteFunc(f.rows, func(x *row) bool { return slices.Contains(seqs, x.seq) })
	}
	return err
}

func (f *fake) setAside(_ context.Context, token int64, failed []verdict) (bool, error) {
	unlock, err := f.called("setAside")
	defer unlock()
	if err != nil || token != f.token {
		return false, err
	}
	for _, v := range failed {
		at := slices.IndexFunc(f.rows, func(x *row) bool { return x.seq == v.row.seq })
		f.rows[at].attempts = v.row.attempts
		f.aside[v.row.Aggregate] = append(f.aside[v.row.Aggregate], f.rows[at])
		f.due[v.row.ID] = time.Time{}
		if v.rest > 0 {
			f.due[v.row.ID] = time.Now().Add(v.rest)
		}
		f.rows = slices.Delete(f.rows, at, at+1)
	}
	return true, nil
}

func (f *fake) tidy(_ context.Context, token int64, _ time.Duration) (bool, error) {
	unlock, err := f.called("tidy")
	defer unlock()
	for aggregate, all := range f.aside {
		for _, x := range slices.Clone(all) {
			if due := f.due[x.ID]; !due.IsZero() && !time.Now().Before(due) {
				f.rows = append(f.rows, x)
				all = slices.DeleteFunc(all, func(other *row) bool { return other == x })
			}
		}
		if f.aside[aggregate] = all; len(all) == 0 {
			delete(f.aside, aggregate)
		}
	}
	slices.SortFunc(f.rows, func(a, b *row) int { return int(a.seq - b.seq) })
	return err == nil && token == f.token, err
}

// state is what waits, and behind a slash what is parked.
func (f *fake) state() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var waiting, parked []string
	for _, x := range f.rows {
		waiting = append(waiting, x.ID)
	}
	for _, all := range f.aside {
		for _, x := range all {
			parked = append(parked, x.ID)
		}
	}
	slices.Sort(parked)
	return strings.Join(waiting, " ") + "/" + strings.Join(parked, " ")
}

// A broker keeps what it got, and answers as its script says.
type broker struct {
	mu      sync.Mutex
	got     []string
	publish func(ctx context.Context, m Message) error
	whole   bool // one error is that of all
	calls   atomic.Int64
}

func (b *broker) Publish(ctx context.Context, messages []Message) []error {
	b.calls.Add(1)
	errs := make([]error, len(messages))
	for i, m := range messages {
		if b.publish != nil {
			errs[i] = b.publish(ctx, m)
		}
		if b.whole && errs[i] != nil {
			return slices.Repeat([]error{errs[i]}, len(messages))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range messages {
		if errs[i] == nil {
			b.got = append(b.got, m.ID)
		}
	}
	return errs
}

func (b *broker) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.got, " ")
}

// A trial is a relay in a bubble.
type trial struct {
	*testing.T
	*fake
	*broker
	relay *Relay
	stop  func()
	told  []string // what it said, but for what was published
}

var once = policy.Policy{Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true}}

func newTrial(t *testing.T, rows *fake, b *broker, p policy.Policy, o RelayOptions) *trial {
	t.Helper()
	x := &trial{T: t, fake: rows, broker: b}
	o.Notify = func(n Notice) {
		rows.mu.Lock()
		defer rows.mu.Unlock()
		if n.Kind != noticePublished {
			x.told = append(x.told, strings.TrimSpace(fmt.Sprint(n.Kind, " ", n.ID)))
		}
		panic("a panic that is recovered")
	}
	if o.Backoff == (backoff.Backoff{}) {
		o.Backoff = backoff.Const(10 * time.Second)
	}
	var err error
	if x.relay, err = newRelay(rows, b, gabion.New("broker", p), o, "outbox"); err != nil {
		t.Fatal(err)
	}
	return x
}

// start runs the relay until the test's end, or until stop is called.
func (x *trial) start() *trial {
	ctx, cancel := context.WithCancel(x.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := x.relay.Run(ctx); err != nil {
			x.Error(err)
		}
	})
	x.stop = func() { cancel(); all.Wait() }
	return x
}

func (x *trial) want(published, state string) {
	x.Helper()
	if got := x.broker.text(); got != published {
		x.Errorf("published %q, want %q", got, published)
	}
	if got := x.fake.state(); got != state {
		x.Errorf("left %q, want %q", got, state)
	}
}

func (x *trial) wantTold(want ...string) {
	x.Helper()
	x.mu().Lock()
	defer x.mu().Unlock()
	if !slices.Equal(x.told, want) {
		x.Errorf("told %q, want %q", x.told, want)
	}
}

func (x *trial) mu() *sync.Mutex { return &x.fake.mu }
