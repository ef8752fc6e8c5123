package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/messages/consumer"
)

// ErrStopping is why the context of work ends that goes on for longer than Options.Grace. See
// context.Cause.
var ErrStopping = errors.New("natsmsg: the consumer stops")

// Consume handles the messages of a durable pull consumer of JetStream until the context ends,
// and returns the context's error. It returns another at once when the consumer is not fit for
// c's policy, and later when the consumer or its stream is deleted. It goes on when the broker
// is away, restarts, or refuses.
//
// Each message has a goroutine of its own while it is worked on: as many as the policy's
// bulkhead has slots. When the context ends nothing more is fetched, what was not begun is given
// back at once, and what runs may go on for Options.Grace. Then its context ends, and what is not
// back after the Consumer's own Grace is left running: the error of Consume holds a
// [consumer.LeftError] then.
//
// Several processes may consume with one durable, but with Options.Order only one at a time.
func Consume(ctx context.Context, js jetstream.JetStream, stream, durable string, c *consumer.Consumer, work func(context.Context) error, o Options) error {
	if js == nil || c == nil || work == nil {
		return errors.New("natsmsg: the JetStream, the Consumer or the work is nil")
	}
	s := &subscription{js: js, nc: js.Conn(), stream: stream, durable: durable, c: c, work: work, o: o.resolved(), fatal: make(chan error, 1), hand: map[uint64]*item{}, lines: map[string]*line{}, unheard: map[uint64]*item{}, heard: make(chan struct{}, 1), took: time.Second, takes: time.Second, idle: make(chan *item)}
	if err := s.open(ctx); err != nil {
		s.close()
		return fmt.Errorf("natsmsg: consumer %s of stream %s: %w", durable, stream, err)
	}
	return s.run(ctx)
}

// A subscription is a durable that is consumed.
type subscription struct {
	js              jetstream.JetStream
	nc              *nats.Conn
	stream, durable string
	c               *consumer.Consumer
	work            func(context.Context) error
	o               Options

	next       string        // where messages are asked for
	inbox      string        // what the subjects of answers begin with
	visibility time.Duration // for which the broker keeps a delivery from others
	lasts      time.Duration // for which the broker keeps a request
	most       int           // messages that the broker lets one request have; zero means any number
	sub        *nats.Subscription
	answers    *nats.Subscription // to the broker's confirmations of acknowledgements
	replies    string             // what the subjects of that begin with
	sources    sync.Map           // the names of subjects
	subjects   atomic.Int64       // how many of these are kept
	base       context.Context    // of the work
	end        context.CancelCauseFunc
	fatal      chan error // why it can't go on
	workers    sync.WaitGroup
	idle       chan *item // to workers that have nothing to do; closed when no more comes

	mu       sync.Mutex // guards all below
	hand     map[uint64]*item
	lines    map[string]*line
	unheard  map[uint64]*item // ended, and not confirmed by the broker yet
	heard    chan struct{}    // gets one when, at the end, nothing is unheard
	ready    []*item
	delayed  []*line
	working  int
	arrival  arrival
	took     time.Duration // by the work of a message lately, on average; it begins with a second
	takes    time.Duration // the same, with the messages to the broker
	pull     pulling
	lastErr  error
	stopping bool
}

// open looks whether the durable is fit, and subscribes to what will be asked for.
func (s *subscription) open(ctx context.Context) error {
	durable, err := s.js.Consumer(ctx, s.stream, s.durable)
	if err != nil {
		return err
	}
	cfg := &durable.CachedInfo().Config
	err = errors.Join(
		checkServer(s.nc.ConnectedServerVersion()),
		check(cfg, s.c.Dependency().Policy(), s.c.Slots(s.o.Workers), &s.o),
		checkDead(ctx, s.js, s.stream, cfg, s.c, &s.o),
	)
	if err != nil {
		return err
	}
	s.visibility, s.most, s.lasts = visibility(cfg), cfg.MaxRequestBatch, lasts
	if t := cfg.MaxRequestExpires; t > 0 {
		s.lasts = min(lasts, t)
	}
	s.next = apiPrefix(s.js.Options()) + "CONSUMER.MSG.NEXT." + s.stream + "." + s.durable
	s.inbox, s.replies = s.nc.NewInbox()+".", s.nc.NewInbox()+"."
	s.base, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if s.o.Order != nil {
		if err := s.settle(ctx, durable); err != nil {
			return err
		}
	}
	if !s.o.SingleAck {
		if s.answers, err = s.nc.Subscribe(s.replies+"*", s.confirm); err != nil {
			return err
		}
		if err := s.answers.SetPendingLimits(-1, -1); err != nil {
			return err
		}
	}
	if s.sub, err = s.nc.Subscribe(s.inbox+"*", s.receive); err != nil {
		return err
	}
	return s.sub.SetPendingLimits(-1, -1) // no more comes than was asked for
}

func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return "$JS.API."
}

// fail ends the subscription.
func (s *subscription) fail(err error) {
	select {
	case s.fatal <- err:
	default:
	}
}

// receive gets a message, or what the broker says of a request.
func (s *subscription) receive(m *nats.Msg) {
	if strings.HasPrefix(m.Subject, s.inbox) {
		s.status(m)
		return
	}
	place, ok := placeOf(m.Reply)
	if !ok {
		return // it is no delivery
	}
	now := time.Now()
	it := &item{raw: m, seq: place.stream, delivered: place.delivered, came: now, kept: now, order: ask(s.o.Order, m)}
	s.mu.Lock()
	if s.pull.left > 0 {
		s.pull.left--
	}
	s.pull.heard, s.pull.failed = now, 0
	if s.stopping {
		s.mu.Unlock()
		s.tell(it, nak)
		return
	}
	if s.o.Order != nil {
		s.arrived(place, now)
	}
	if old := s.hand[it.seq]; old != nil { // its holder answers for this delivery too
		if !old.running {
			old.raw, old.delivered, old.kept = m, it.delivered, now
		}
		s.mu.Unlock()
		return
	}
	s.place(it)
	if s.takes > instant || s.working < few {
		s.begin()
	}
	s.mu.Unlock()
}

// Messages whose work is over in an instant are worked on by few goroutines, one after the
// other, since to wake one for each takes longer. If these get stuck, others begin within often.
const (
	instant = 100 * time.Microsecond
	few     = 8
)

// begin begins to work on as many messages as there is room for. mu is held.
func (s *subscription) begin() {
	for it := s.take(s.working); it != nil; it = s.take(s.working) {
		s.working++
		select {
		case s.idle <- it:
		default:
			s.workers.Add(1)
			go s.worker(it)
		}
	}
}

// often is how often it is looked what is due, at least.
const often = 100 * time.Millisecond

func (s *subscription) run(ctx context.Context) error {
	ticker := time.NewTicker(min(often, s.visibility/6))
	defer ticker.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return s.stop(ctx.Err())
		case err := <-s.fatal:
			return s.stop(fmt.Errorf("natsmsg: %w", err))
		case <-ticker.C:
		}
	}
}

// look does what is due.
func (s *subscription) look(ctx context.Context) {
	now := time.Now()
	s.mu.Lock()
	s.lost(now)
	s.due(now)
	s.begin()
	beats, back := s.keep(now)
	silent := s.silent(now)
	r := s.want(now)
	verify, why := s.pull.verify, s.lastErr
	s.pull.verify = false
	s.mu.Unlock()
	for _, reply := range beats {
		_ = s.nc.Publish(reply, inProgress)
	}
	for _, it := range back {
		s.tell(it, nak)
	}
	for _, it := range silent {
		s.ask(it, plain(it.said))
	}
	s.send(r)
	if verify {
		s.verify(ctx, why)
	}
}

// longest is how long a message is kept that can't be begun, since the policy refuses.
const longest = 5 * time.Minute

// keep returns the messages that need a heartbeat to the broker, and those that were kept for too
// long. mu is held.
func (s *subscription) keep(now time.Time) (beats []string, back []*item) {
	if s.working == len(s.hand)-len(s.unheard) {
		return nil, nil
	}
	for _, it := range s.hand {
		switch {
		case it.running:
		case it.line == nil && now.Sub(it.came) > longest:
			back = append(back, it)
		case now.Sub(it.kept) > s.visibility/3:
			it.kept = now
			beats = append(beats, it.raw.Reply)
		}
	}
	for _, it := range back {
		delete(s.hand, it.seq)
	}
	if len(back) > 0 {
		s.ready = without(s.ready, back)
	}
	return beats, back
}

// verify asks the broker whether the consumer is still there, after a request failed.
func (s *subscription) verify(ctx context.Context, why error) {
	if !s.nc.IsConnected() {
		if s.nc.IsClosed() {
			s.fail(nats.ErrConnectionClosed)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := s.js.Consumer(ctx, s.stream, s.durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		s.fail(fmt.Errorf("%w: %s of stream %s", err, s.durable, s.stream))
		return
	}
	s.o.Logger.Warn("messages can't be fetched", slog.String("stream", s.stream), slog.String("consumer", s.durable), slog.Any("error", errors.Join(why, err)))
}
