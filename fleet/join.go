package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/fleet"
	"github.com/gabion-go/gabion/internal/machine"
)

// Options are of one process. The zero Options are right for most.
type Options struct {
	// Name is of the fleet: the processes that join under one name in one store share limits and follow the same
	// overrides. Letters, digits, hyphens, dots and underscores. Zero means "gabion".
	Name string

	// ID tells this process from all others, also from one that ran before it. Zero means host name, process
	// number and some random letters.
	ID string

	// Version is of the program, so that operators see which processes run which. Zero means that nothing is said.
	Version string

	// Lease is how long a share is good for after the store was asked, and so the longest time that the share of
	// a process that was killed is lost to the others. It should be the same in all processes. A share is renewed after a third of it. Zero
	// means 10 s; less than 1 s counts as 1 s.
	Lease time.Duration

	// Logger hears when the store can't be reached any more, and when it can again. Nil means slog.Default.
	Logger *slog.Logger
}

const (
	defaultName  = "gabion"
	defaultLease = 10 * time.Second
	leastLease   = time.Second

	// looksEvery is how often overrides are read, so that they are in force everywhere within two seconds.
	looksEvery = time.Second

	// ticks is how often in a lease a process looks at what it needs.
	ticks = 40
)

// Member is a process that has joined a fleet. It is safe for concurrent use.
type Member struct {
	registry *gabion.Registry
	store    Store
	o        Options
	epoch    time.Time // of the instants of holder
	draw     func() float64

	stop   context.CancelFunc
	closed chan struct{} // closed when the goroutine has ended
	once   sync.Once

	holder  *fleet.Holder // of the goroutine, as is all below
	needs   needs
	steers  steers
	heard   time.Time    // of the store's clock, at the last answer
	at      time.Time    // of the process's, when it came
	pool    *fleet.Pool  // that was read last
	parts   []fleet.Part // of the pool that it has divided, until they are put
	force   fleet.Shares // in force
	amounts amounts      // the same, by resource
	facts   gathered
	hangs   chan answer // of a batch that the store has not answered in time; nil without one

	mu     sync.Mutex // guards status
	status Status
}

// Join makes the process a member of a fleet. The limits of the registry's dependencies whose policy says so are shared with the
// other members from then on, and operators' overrides are followed, until Close. Dependencies that a
// reload adds are included.
//
// Join waits until the other members have made room, so that calls find a share: at most half of a lease, and hardly ever for
// longer than a round trip where there is room. If the store does not answer, the process is a member all the same, at once, and
// goes by what its policies declare for that: the store of a fleet is not needed to start. The error says what is wrong with the
// options, or that the registry is a member already. Values of ctx are passed to the store; that ctx ends does not end the membership.
func Join(ctx context.Context, r *gabion.Registry, s Store, o Options) (*Member, error) {
	m, err := newMember(r, s, o)
	if err != nil {
		return nil, err
	}
	if !adapter.Join(r) {
		return nil, errors.New("fleet: the registry is a member already: two members would undo each other's shares; close the first one")
	}
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.begin(ctx)
	go m.run(ctx)
	return m, nil
}

// begin renews until the process has something of each limit.
func (m *Member) begin(ctx context.Context) {
	for until := m.now().Add(m.o.Lease / 2); ; {
		m.renew(ctx)
		next := m.holder.Next(m.now(), m.draw())
		if m.force.Lost || !lacks(m) || next > until {
			return
		}
		time.Sleep(time.Duration(next - m.now()))
	}
}

// lacks reports whether the process has nothing of a limit yet.
func lacks(m *Member) bool {
	for _, d := range m.needs.demands {
		if m.amounts.of(d.Resource) <= 0 {
			return true
		}
	}
	return false
}

func newMember(r *gabion.Registry, s Store, o Options) (*Member, error) {
	if r == nil || s == nil {
		return nil, errors.New("fleet: Join needs a registry and a store")
	}
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.ID == "" {
		o.ID = newID()
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	o.Lease = max(o.Lease, leastLease)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := errors.Join(validFleet(o.Name), text("the ID", o.ID)); err != nil {
		return nil, err
	}
	m := &Member{
		registry: r, store: s, o: o, epoch: time.Now(), draw: drawer(), closed: make(chan struct{}),
		holder: fleet.New(o.ID, o.Lease),
	}
	m.needs.of, m.steers = map[string]*need{}, steers{registry: r, done: map[target]applied{}}
	m.status.ID, m.status.Fleet = o.ID, o.Name
	return m, nil
}

// newID names a process. The random part tells it from one that had the same number before.
func newID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", machine.BoundedName(host), os.Getpid(), randomID())
}

// now reads the monotonic clock.
func (m *Member) now() clock.Instant { return clock.Instant(time.Since(m.epoch)) }

// time is an instant as a time of the process's clock.
func (m *Member) time(at clock.Instant) time.Time { return m.epoch.Add(time.Duration(at)) }

// Close gives the shares back at once, so that others need not wait until they end, and leaves the fleet. What the process
// still calls goes by what its policies declare for a store that is away, and overrides that are in force run to their end. It waits for the store an eighth of the lease at most.
// Closing twice does nothing.
func (m *Member) Close() {
	m.once.Do(func() {
		m.stop()
		<-m.closed
		m.leave()
		adapter.Leave(m.registry)
	})
}

// run renews until ctx ends.
func (m *Member) run(ctx context.Context) {
	defer close(m.closed)
	next, look := m.schedule()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wake := min(next, look, m.now().Add(m.o.Lease/ticks))
		timer.Reset(time.Duration(wake - m.now()))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		m.measure(m.now())
		switch now := m.now(); {
		case now >= next || m.holder.Rising(now, m.needs.demands):
			if m.renew(ctx); m.steers.moved() {
				m.renew(ctx) // a rate for all is in force when it is reported
			}
			next, look = m.schedule()
		case now >= look:
			if m.look(ctx); m.steers.moved() {
				m.renew(ctx)
				next, _ = m.schedule()
			}
			look = m.lookAt()
		}
	}
}

// schedule says when to renew next, and when to look at the overrides next.
func (m *Member) schedule() (next, look clock.Instant) {
	return m.holder.Next(m.now(), m.draw()), m.lookAt()
}

// lookAt is when to read the overrides. While the store is away, only renewals ask it.
func (m *Member) lookAt() clock.Instant {
	if m.force.Lost {
		return clock.Never
	}
	return m.now().Add(time.Duration((0.8 + 0.2*m.draw()) * float64(looksEvery)))
}
