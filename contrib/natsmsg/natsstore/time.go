package natsstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/idempotency"
)

const (
	askEvery  = 10 * time.Second // one caller asks the server's clock again
	askLatest = time.Minute      // all do
	slowest   = time.Second      // an answer that took longer says too little
	driftPart = 1000             // the two clocks run apart by less than 1/driftPart: NTP slews by half of that
	stepped   = 250 * time.Millisecond
	firstAsks = 5 // when the store is opened, of which the fastest counts
)

// A reading is one of this process's clocks: the monotonic one, and the wall clock
// only to notice that the machine slept, during which the other stands still.
type reading struct{ mono, wall time.Duration }

func monotonic() func() reading {
	origin := time.Now()
	return func() reading {
		now := time.Now()
		return reading{now.Sub(origin), time.Duration(now.UnixNano())}
	}
}

// A moment is what is known of the servers' time now: between early and late.
type moment struct{ early, late idempotency.Moment }

// A sample is one answer of the server's clock.
type sample struct {
	back   reading            // when it was here
	took   time.Duration      // to ask and to answer
	server idempotency.Moment // at some time in between
}

// at returns what the sample says about the time of a later reading.
func (s sample) at(r reading) moment {
	age := r.mono - s.back.mono
	drift := (age + s.took) / driftPart
	return moment{s.server.Add(age - drift), s.server.Add(s.took + age + drift)}
}

func (s sample) age(r reading) time.Duration {
	age, wall := r.mono-s.back.mono, r.wall-s.back.wall
	if wall-age > stepped || age-wall > stepped {
		return askLatest // the machine slept, or its clock was set: either way ask
	}
	return age
}

// A serverClock knows the servers' time from asking now and then. Safe for
// concurrent use.
type serverClock struct {
	read   func() reading
	ask    func(context.Context) (time.Time, error)
	asking sync.Mutex // held by the one who asks ahead of need

	mu   sync.Mutex // guards last
	last sample
}

// info asks the stream's leader for its time.
func info(stream jetstream.Stream) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		i, err := stream.Info(ctx)
		if err != nil {
			return time.Time{}, err
		}
		if i.TimeStamp.IsZero() {
			return time.Time{}, errors.New("the server does not tell its time: it is older than 2.11")
		}
		return i.TimeStamp, nil
	}
}

// start asks for the first time. A slow answer is as good as none while another is
// quicker.
func (c *serverClock) start(ctx context.Context) error {
	var slow error
	known := false
	for range firstAsks {
		s, err := c.sample(ctx)
		switch {
		case errors.Is(err, errSlow):
			slow = err
		case err != nil:
			return err
		case !known || s.took < c.last.took:
			c.last, known = s, true
		}
	}
	if !known {
		return slow
	}
	return nil
}

var errSlow = errors.New("too long to know the time by it")

func (c *serverClock) sample(ctx context.Context) (sample, error) {
	sent := c.read()
	t, err := c.ask(ctx)
	back := c.read()
	if err != nil {
		return sample{}, fmt.Errorf("read the server's clock: %w", err)
	}
	s := sample{back, back.mono - sent.mono, idempotency.Moment(t.UnixNano())}
	if s.took > slowest {
		return s, fmt.Errorf("read the server's clock: the answer took %v, %w", s.took, errSlow)
	}
	return s, nil
}

// now returns the servers' time.
func (c *serverClock) now(ctx context.Context) (moment, error) {
	r := c.read()
	last := c.latest()
	age := last.age(r)
	if age < askEvery {
		return last.at(r), nil
	}
	needed := age >= askLatest
	if !needed {
		if !c.asking.TryLock() {
			return last.at(r), nil
		}
		defer c.asking.Unlock()
	}
	s, err := c.sample(ctx)
	if err != nil && needed {
		return moment{}, err
	}
	if err == nil {
		last = c.learn(s, needed)
	}
	return last.at(c.read()), nil
}

func (c *serverClock) latest() sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// learn keeps the sample that says more, and the new one if the two contradict
// each other: the server's clock was set, or another server leads.
func (c *serverClock) learn(s sample, needed bool) sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, after := c.last.at(s.back), s.at(s.back)
	wider := after.late-after.early > before.late-before.early
	apart := after.late < before.early || before.late < after.early
	if needed || apart || !wider {
		c.last = s
	}
	return c.last
}
