package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	s := newSubscription(js.Conn(), c, o)
	s.js, s.stream, s.durable, s.do = js, stream, durable, work
	if err := s.open(ctx); err != nil {
		s.close()
		return fmt.Errorf("natsmsg: consumer %s of stream %s: %w", durable, stream, err)
	}
	return s.run(ctx)
}

// A subscription is a durable that is consumed. Its parts have locks of their own, which are taken in
// this order: pull, crew, hand; and ends alone or last.
type subscription struct {
	js              jetstream.JetStream
	nc              *nats.Conn
	stream, durable string
	c               *consumer.Consumer
	do              func(context.Context) error
	o               Options

	visibility time.Duration      // for which the broker keeps a delivery from others
	sub        *nats.Subscription // to messages, and to what the broker says of requests
	answers    *nats.Subscription // to the broker's confirmations of acknowledgements
	sources    sources
	base       context.Context // of the work
	end        context.CancelCauseFunc
	fatal      chan error // why it can't go on

	pull pull // the messages that are asked for
	hand hand // those that are here
	crew crew // who works on them
	ends ends // those that are over, for the broker to hear of
}

func newSubscription(nc *nats.Conn, c *consumer.Consumer, o Options) *subscription {
	s := &subscription{nc: nc, c: c, o: o.resolved(), fatal: make(chan error, 1)}
	s.pull.nc, s.ends.nc = nc, nc
	s.hand = hand{ordered: o.Order != nil, ahead: s.o.Ahead, all: map[uint64]*item{}, lines: map[string]*line{}}
	s.crew = crew{c: c, workers: s.o.Workers, hand: &s.hand, work: s.work, idle: make(chan *item), took: time.Second, takes: time.Second}
	s.ends.unheard, s.ends.heard = map[uint64]*item{}, make(chan struct{}, 1)
	return s
}

// keepsFor sets for how long the broker keeps a delivery from others.
func (s *subscription) keepsFor(d time.Duration) {
	s.visibility, s.hand.visibility, s.ends.visibility = d, d, d
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
		check(cfg, s.c.Dependency().Policy(), s.crew.slots(), &s.o),
		checkDead(ctx, s.js, s.stream, cfg, s.c, &s.o),
	)
	if err != nil {
		return err
	}
	s.keepsFor(visibility(cfg))
	s.pull.most, s.pull.lasts = cfg.MaxRequestBatch, lasts
	if t := cfg.MaxRequestExpires; t > 0 {
		s.pull.lasts = min(lasts, t)
	}
	s.pull.next = apiPrefix(s.js.Options()) + "CONSUMER.MSG.NEXT." + s.stream + "." + s.durable
	s.pull.inbox, s.ends.replies = s.nc.NewInbox()+".", s.nc.NewInbox()+"."
	s.base, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if s.hand.ordered {
		log := s.o.Logger.With(slog.String("stream", s.stream), slog.String("consumer", s.durable))
		if s.hand.arrival, err = settle(ctx, durable, s.visibility, log); err != nil {
			return err
		}
	}
	if !s.o.SingleAck {
		if s.answers, err = s.nc.Subscribe(s.ends.replies+"*", s.confirm); err != nil {
			return err
		}
		if err := s.answers.SetPendingLimits(-1, -1); err != nil {
			return err
		}
	}
	if s.sub, err = s.nc.Subscribe(s.pull.inbox+"*", s.receive); err != nil {
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
	if strings.HasPrefix(m.Subject, s.pull.inbox) {
		if err := s.pull.status(m); err != nil {
			s.fail(fmt.Errorf("%w: %s of stream %s", err, s.durable, s.stream))
		}
		return
	}
	place, ok := placeOf(m.Reply)
	if !ok {
		return // it is no delivery
	}
	now := time.Now()
	it := &item{raw: m, seq: place.stream, delivered: place.delivered, came: now, kept: now, order: ask(s.o.Order, m)}
	if !s.hand.add(it, place) {
		s.tell(it, nak)
		return
	}
	last := s.pull.came(now)
	s.crew.came()
	if last { // it may have been worked on before the pull knew
		s.request(now)
	}
}

// request asks for messages if there is room.
func (s *subscription) request(now time.Time) { s.pull.ask(now, s.room) }

// room is for how many messages there is room that are worth a request. What has ended is counted
// first among what is here, and then off again, so that none that is confirmed in between is
// counted off twice.
func (s *subscription) room() int {
	limit, here := s.crew.limit(), s.hand.count()
	n := limit - here + min(s.ends.count(), limit/2)
	if n < limit/2 {
		return 0
	}
	return n
}

// rest is for how many messages there is room at all, where everything that is here waits for others of
// its order: messages of other orders don't stand still for these. It may be few, so it is not asked after each.
func (s *subscription) rest() int {
	if !s.hand.stands() {
		return 0
	}
	return s.crew.limit() - s.hand.count()
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
	s.pull.lost(now)
	s.hand.due(now)
	s.crew.begin()
	beats, back := s.hand.keep(now)
	for _, reply := range beats {
		_ = s.nc.Publish(reply, inProgress)
	}
	for _, it := range back {
		s.tell(it, nak)
	}
	again, gone := s.ends.silent(now)
	s.hand.forget(gone...)
	for _, it := range again {
		s.ends.tell(it, plain(it.said))
	}
	s.request(now)
	s.pull.ask(now, s.rest)
	if why, yes := s.pull.doubtful(); yes {
		s.verify(ctx, why)
	}
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
