package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/adapter"
)

// RelayOptions is how a [Relay] works. The zero value is sound.
type RelayOptions struct {
	// Batch is how many messages are read at once. A crash makes twice as many come twice at
	// most. Zero means 500.
	Batch int

	// Poll is how long the relay waits before it looks again when it found nothing, unless
	// [Relay.Wake] is called. Zero means 1 s.
	Poll time.Duration

	// Lease is for how long a relay that has died keeps others waiting, and twice that where the
	// database's clock was set back in that time. Zero means 15 s; it is at least 1 s. All relays
	// of a table should have the same: one with less than half of another's takes the other's
	// lease.
	Lease time.Duration

	// Keep is for how long rows stay after their message was published: Enqueue refuses their
	// IDs that long. Zero means not at all.
	Keep time.Duration

	// MaxFailures is how often a message may fail, while others are confirmed, before it is
	// parked. Failures that pass by themselves (policy.Class.Transient) do not count: such a
	// message is tried until it is confirmed. Zero means 10.
	MaxFailures int

	// Backoff says how long a message that failed waits, while others are confirmed, by the
	// number of its failures. Zero means equal jitter from 1 s to 5 min.
	Backoff backoff.Backoff

	// Owner is how the relay calls itself in the database. Zero means the host's name and the
	// number of the process.
	Owner string

	// Notify is called with what happens, by the goroutine in which it happens. It must not
	// block. Its panics are ignored. Nil means to log to slog.Default.
	Notify func(Notice)
}

func (o RelayOptions) resolved(table string) (RelayOptions, error) {
	for _, d := range []time.Duration{o.Poll, o.Lease, o.Keep, time.Duration(o.Batch), time.Duration(o.MaxFailures)} {
		if d < 0 {
			return o, errors.New("outbox: a relay's options are not negative")
		}
	}
	if o.Lease != 0 && o.Lease < time.Second {
		return o, fmt.Errorf("outbox: a lease of %v is too short to be renewed in time: at least 1 s", o.Lease)
	}
	host, _ := os.Hostname() // only a name for people
	o.Batch, o.Poll, o.Lease = cmp.Or(o.Batch, 500), cmp.Or(o.Poll, time.Second), cmp.Or(o.Lease, 15*time.Second)
	o.MaxFailures, o.Backoff = cmp.Or(o.MaxFailures, 10), cmp.Or(o.Backoff, backoff.Equal(time.Second, 5*time.Minute))
	o.Owner = cmp.Or(o.Owner, fmt.Sprintf("%s/%d", host, os.Getpid()))
	if o.Notify == nil {
		o.Notify = logged(table)
	}
	return o, nil
}

// A Relay publishes what was committed. Make one with [Outbox.Relay] and call Run. Safe for
// concurrent use.
type Relay struct {
	rows      rows
	publisher Publisher
	dep       *gabion.Dependency
	reads     adapter.Dependency
	options   RelayOptions
	wake      chan struct{}
	running   atomic.Bool
	leads     atomic.Bool
	calling   atomic.Pointer[calling] // the call of the publisher that is under way

	// These belong to Run.
	unmarked  []int64   // confirmed, and the database does not know it
	newest    int64     // when the newest that was confirmed was created
	ahead     []*row    // read while the batch before was published
	limit     int       // how many rows to read
	fruitless int       // rounds in a row in which nothing could be published
	moved     int       // of these the last ones, which set rows aside untried
	troubles  int       // errors of the database in a row
	tidied    time.Time // when tidy was last called
}

// Relay returns a relay that publishes through dep: every call of the publisher is an
// attempt of it, so its policy says how often one is repeated and how long it may take, and
// its breaker when none is made. Calls are repeated although they have no key, since
// consumers drop what comes twice.
func (o *Outbox) Relay(p Publisher, dep *gabion.Dependency, options RelayOptions) (*Relay, error) {
	switch {
	case o.db == nil:
		return nil, errNoDB
	case p == nil:
		return nil, errors.New("outbox: a relay needs a Publisher")
	case dep == nil:
		return nil, errors.New("outbox: a relay needs a gabion.Dependency")
	}
	return newRelay(o, p, dep, options, o.table)
}

func newRelay(of rows, p Publisher, dep *gabion.Dependency, options RelayOptions, table string) (*Relay, error) {
	options, err := options.resolved(table)
	if err != nil {
		return nil, err
	}
	return &Relay{
		rows: of, publisher: p, dep: dep, reads: adapter.Of(dep), options: options,
		wake: make(chan struct{}, 1), limit: options.Batch,
	}, nil
}

// Wake makes the relay look for messages at once. Call it after a commit. It does nothing
// where another process has the lease: that one looks every Poll.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Leads reports whether this relay has the lease.
func (r *Relay) Leads() bool { return r.leads.Load() }

// ErrRunning says that Run was called while it runs.
var ErrRunning = errors.New("outbox: the relay runs already")

// Run publishes until ctx ends, and then returns nil. It waits while another relay has the
// lease, and while database or broker fail. It returns an error only if no waiting helps:
// ErrNewer and ErrRunning. A relay that has returned can run again.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	for ctx.Err() == nil {
		asked := time.Now()
		limited, cancel := context.WithTimeout(ctx, r.options.Lease) // the server may be gone, and the connection not know it
		token, left, err := r.rows.acquire(limited, r.options.Owner, r.options.Lease)
		cancel()
		switch {
		case errors.Is(err, ErrNewer):
			return err
		case err != nil:
			r.wait(ctx, r.broken(ctx, err))
		case token == 0:
			r.troubles = 0
			r.wait(ctx, rest{d: min(left, r.options.Lease/3) + rand.N(r.options.Lease/20)})
		default:
			r.lead(ctx, begun(token, r.options.Lease, asked))
		}
	}
	return nil
}

// A rest is a wait.
type rest struct {
	d     time.Duration
	wakes bool // Wake ends it
}

func (r *Relay) wait(ctx context.Context, until rest) {
	if until.d <= 0 {
		return
	}
	var wake chan struct{}
	if until.wakes {
		wake = r.wake
	}
	timer := time.NewTimer(until.d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// troubled is how long to rest while the database or the broker fails.
var troubled = backoff.Equal(200*time.Millisecond, 30*time.Second)

// broken is the rest after an error of the database.
func (r *Relay) broken(ctx context.Context, err error) rest {
	if ctx.Err() != nil {
		return rest{}
	}
	r.troubles++
	until := rest{d: troubled.Delay(min(r.troubles, 1000)-1, 0, rand.Float64())}
	r.tell(Notice{Kind: noticeBroken, Rest: until.d, Err: err})
	return until
}

// errLost is why a relay ends what it does under a lease that is over.
var errLost = errors.New("outbox: the lease is lost")

// lead publishes until ctx ends or the lease is lost.
func (r *Relay) lead(ctx context.Context, l lease) {
	ctx, end := context.WithCancelCause(ctx)
	h := &holding{token: l.token, lease: l}
	var beats sync.WaitGroup
	r.leads.Store(true)
	r.troubles, r.tidied = 0, time.Time{}
	defer func() {
		r.leads.Store(false)
		lost := errors.Is(context.Cause(ctx), errLost)
		r.ahead = nil
		if err := r.mark(ctx); err != nil { // the next round does, or they come twice
			r.tell(Notice{Kind: noticeBroken, Err: err})
		}
		end(nil)
		beats.Wait()
		if lost {
			return
		}
		r.resign(l.token)
	}()
	beats.Go(func() { r.keep(ctx, h, end) })
	r.tell(Notice{Kind: noticeLeads})
	for ctx.Err() == nil {
		if h.over(time.Now()) {
			end(errLost)
			r.tell(Notice{Kind: noticeLost, Err: errLost})
			return
		}
		r.wait(ctx, r.round(ctx, h, end))
	}
}

// A holding is the lease as the goroutine that publishes and the one that renews see it.
type holding struct {
	token int64
	mu    sync.Mutex // guards lease
	lease lease
}

func (h *holding) over(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease.over(now)
}

// keep renews the lease until ctx ends, and ends it when the lease is lost.
func (r *Relay) keep(ctx context.Context, h *holding, end context.CancelCauseFunc) {
	l := h.lease
	for {
		r.wait(ctx, rest{d: min(time.Until(l.next), time.Until(l.until))})
		if ctx.Err() != nil {
			return
		}
		if r.hangs(l.length) {
			end(errLost)
			r.tell(Notice{Kind: noticeLost, Err: errHangs})
			return
		}
		asked := time.Now()
		limited, cancel := context.WithDeadline(ctx, l.until)
		held, err := r.rows.renew(limited, l.token, l.length)
		cancel()
		switch now := time.Now(); {
		case ctx.Err() != nil:
			return
		case err == nil && held:
			l = l.renewed(asked)
		case err == nil || l.over(now):
			end(errLost)
			r.tell(Notice{Kind: noticeLost, Err: errors.Join(errLost, err)})
			return
		default:
			l = l.missed(now)
		}
		h.mu.Lock()
		h.lease = l
		h.mu.Unlock()
	}
}

// errHangs is why a relay gives up a lease that it could renew.
var errHangs = fmt.Errorf("%w: the publisher does not return, although its context has ended", errLost)

// A calling is a call of the publisher.
type calling struct {
	ctx  context.Context
	late time.Time // when it was seen first that ctx has ended; belongs to the goroutine that renews
}

// hangs reports whether a call goes on for that long after the end of its context: another relay may
// have more luck.
func (r *Relay) hangs(long time.Duration) bool {
	c := r.calling.Load()
	if c == nil || c.ctx.Err() == nil {
		return false
	}
	if c.late.IsZero() {
		c.late = time.Now()
	}
	return time.Since(c.late) >= long
}

// goodbye bounds what is said to the database after the end of Run's context.
const goodbye = 5 * time.Second

// resign gives the lease back, so that another relay need not wait for its end.
func (r *Relay) resign(token int64) {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	err := r.rows.release(ctx, token)
	r.tell(Notice{Kind: noticeResigned, Err: err})
}

func (r *Relay) tell(n Notice) {
	defer func() { _ = recover() }() // it takes nothing from the messages
	r.options.Notify(n)
}
