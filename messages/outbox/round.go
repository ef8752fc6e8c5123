package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// alone is how many messages are tried, each for itself, when nothing could be published:
// one that fails, or makes the publisher panic, must not stop the others.
const alone = 8

// waves says what to publish together, and in which order. No two messages of a wave are of
// the same aggregate, and each comes after those before it in its aggregate. A message that
// has failed before is a wave of its own.
//
// After rounds in which nothing could be published, there are few waves of one message each,
// and others each time.
func waves(batch []*row, fruitless int) (all [][]*row) {
	var levels [][]*row
	depth := map[string]int{}
	for _, x := range batch {
		at := depth[x.Aggregate] // zero for those without one
		if x.Aggregate != "" {
			depth[x.Aggregate]++
		}
		if at == len(levels) {
			levels = append(levels, nil)
		}
		levels[at] = append(levels[at], x)
	}
	if fruitless > 0 && len(levels) > 0 {
		first := levels[0]
		from := (fruitless - 1) * alone % len(first)
		for n := range min(alone, len(first)) {
			all = append(all, []*row{first[(from+n)%len(first)]})
		}
		return all
	}
	for _, level := range levels {
		var together []*row
		var apart [][]*row
		for _, x := range level {
			if x.attempts > 0 {
				apart = append(apart, []*row{x})
			} else {
				together = append(together, x)
			}
		}
		if len(together) > 0 {
			all = append(all, together)
		}
		all = append(all, apart...)
	}
	return all
}

// round publishes a batch and writes down what became of it.
func (r *Relay) round(ctx context.Context, h *holding, end context.CancelCauseFunc) rest {
	batch, held, err := r.batch(ctx, h)
	switch {
	case err != nil:
		return r.broken(ctx, err)
	case !held:
		return r.lost(end)
	case len(batch) == 0:
		r.fruitless, r.troubles = 0, 0
		return rest{d: r.options.Poll, wakes: true}
	}
	confirmed, cause, err := r.overlap(ctx, h, batch)
	if err != nil {
		return r.broken(ctx, err)
	}
	if ctx.Err() != nil || h.over(time.Now()) {
		return rest{} // what failed may have failed for that
	}
	failed, untried := r.judge(batch, confirmed > 0), false
	moves := confirmed == 0 && len(failed) == 0 && len(batch) >= r.limit && cause != nil && !unasked(cause)
	if moves {
		failed, untried = r.moveOn(batch, cause)
	}
	if len(failed) > 0 {
		held, err := r.rows.setAside(ctx, h.token, failed)
		switch {
		case err != nil:
			return r.broken(ctx, err)
		case !held:
			return r.lost(end)
		}
	}
	if !moves {
		r.tellFailed(failed)
	}
	r.troubles = 0
	switch {
	case untried:
		r.moved++
		return rest{}
	case confirmed > 0 || len(failed) > 0 && !moves:
		r.fruitless, r.moved = 0, 0
		return rest{}
	}
	r.moved = 0
	return r.rest(cause)
}

// lost ends the lead.
func (r *Relay) lost(end context.CancelCauseFunc) rest {
	end(errLost)
	r.tell(Notice{Kind: noticeLost, Err: errLost})
	return rest{}
}

// batch returns what to publish next. Every Poll it looks after what was set aside first.
func (r *Relay) batch(ctx context.Context, h *holding) (batch []*row, held bool, err error) {
	tidied := time.Since(r.tidied) < r.options.Poll
	if len(r.ahead) > 0 && tidied {
		batch, r.ahead = r.ahead, nil
		return batch, true, nil
	}
	r.ahead = nil
	if err := r.mark(ctx); err != nil {
		return nil, false, err
	}
	if !tidied {
		if held, err := r.rows.tidy(ctx, h.token, r.longest()); err != nil || !held {
			return nil, held, err
		}
		r.tidied = time.Now()
	}
	batch, cut, err := r.rows.waiting(ctx, nil, r.limit)
	r.adapt(len(batch), cut)
	return batch, true, err
}

// longest is how long a message may rest. One that seems to rest longer does so since the
// database's clock was set back.
func (r *Relay) longest() time.Duration {
	const most = 365 * 24 * time.Hour // what is added to a time has to be a time
	return min(max(r.options.Backoff.Delay(1000, 0, 1), longestAside), most)
}

// adapt sets how many rows to read next: of large messages the database need not send what
// is dropped here.
func (r *Relay) adapt(n int, cut bool) {
	if cut {
		r.limit = n
	} else {
		r.limit = min(2*r.limit, r.options.Batch)
	}
}

// overlap publishes a batch. If there is more to come, the batch before is marked, and the
// next one read, in the meantime. No message of that can be before one of this batch in its
// aggregate; it is dropped if any of this one was not confirmed, since it may be behind that.
func (r *Relay) overlap(ctx context.Context, h *holding, batch []*row) (confirmed int, cause, err error) {
	if len(batch) < r.limit || r.fruitless > 0 {
		confirmed, cause = r.publish(ctx, h, batch)
		return confirmed, cause, r.mark(ctx)
	}
	marking, newest, next, cut := r.unmarked, r.newest, []*row(nil), false
	r.unmarked = nil
	func() {
		var marked sync.WaitGroup
		defer marked.Wait() // also if the publisher ends the goroutine
		marked.Go(func() {
			if err = r.markRows(ctx, marking, newest); err == nil {
				next, cut, err = r.rows.waiting(ctx, seqsOf(batch), r.limit)
			}
		})
		confirmed, cause = r.publish(ctx, h, batch)
	}()
	if err != nil {
		r.unmarked = append(marking, r.unmarked...)
		return confirmed, cause, err
	}
	r.adapt(len(next), cut)
	if confirmed < len(batch) || len(next) == 0 {
		return confirmed, cause, r.mark(ctx)
	}
	r.ahead = next
	return confirmed, cause, nil
}

func seqsOf(batch []*row) []int64 {
	seqs := make([]int64, len(batch))
	for i, x := range batch {
		seqs[i] = x.seq
	}
	return seqs
}

// publish publishes a batch until the broker can't be had. cause is why nothing, or not all,
// was published.
func (r *Relay) publish(ctx context.Context, h *holding, batch []*row) (confirmed int, cause error) {
	readable := slices.DeleteFunc(slices.Clone(batch), func(x *row) bool { return x.err != nil })
	stuck := map[string]bool{}
	for _, x := range batch {
		if x.err != nil && x.Aggregate != "" {
			stuck[x.Aggregate] = true
		}
	}
	failures := 0 // calls in a row
	for _, wave := range waves(readable, r.fruitless) {
		wave = slices.DeleteFunc(wave, func(x *row) bool { return stuck[x.Aggregate] })
		if len(wave) == 0 {
			continue
		}
		n, err := r.send(ctx, h, wave)
		if err != nil {
			cause = err
		}
		confirmed += n
		for _, x := range wave {
			if !x.confirmed && x.Aggregate != "" {
				stuck[x.Aggregate] = true
			}
		}
		if failures++; n > 0 {
			failures = 0
		}
		if ctx.Err() != nil || h.over(time.Now()) || unasked(err) || n == 0 && len(wave) > 1 || failures >= alone {
			break
		}
	}
	return confirmed, cause
}

// unasked reports whether the dependency refused a call before the broker was asked.
func unasked(err error) bool {
	var refusal *gabion.Error
	return errors.As(err, &refusal) && refusal.Attempts == 0
}

// send publishes a wave. Each attempt gets what the ones before it left.
func (r *Relay) send(ctx context.Context, h *holding, wave []*row) (confirmed int, err error) {
	pending := wave
	err = r.dep.Run(ctx, func(ctx context.Context) error {
		if h.over(time.Now()) {
			return lapsed{}
		}
		n, left, err := r.attempt(ctx, pending)
		confirmed, pending = confirmed+n, left
		return err
	}, gabion.WithIdempotent(), gabion.WithOperation("publish"))
	if confirmed > 0 {
		r.tell(Notice{Kind: noticePublished, Messages: confirmed})
	}
	return confirmed, err
}

// attempt publishes once. An attempt fails if a message fails that another attempt may help,
// or if the broker refused all.
func (r *Relay) attempt(ctx context.Context, pending []*row) (confirmed int, left []*row, err error) {
	var refusal error
	for i, err := range r.call(ctx, pending) {
		x := pending[i]
		switch x.err = err; {
		case err == nil:
			x.confirmed = true
			confirmed++
			r.unmarked, r.newest = append(r.unmarked, x.seq), max(r.newest, x.created)
		case r.refused(err):
			refusal = err
		default:
			left = append(left, x)
		}
	}
	switch {
	case len(left) > 0:
		return confirmed, left, left[0].err
	case confirmed == 0:
		return confirmed, left, refusal
	}
	return confirmed, left, nil
}

// call calls the publisher and returns an error for each message, nil if it was confirmed.
func (r *Relay) call(ctx context.Context, pending []*row) []error {
	messages := make([]Message, len(pending))
	for i, x := range pending {
		messages[i] = x.Message
	}
	var errs []error
	r.calling.Store(&calling{ctx: ctx})
	defer r.calling.Store(nil)
	err := guarded(func() error {
		errs = r.publisher.Publish(ctx, messages)
		return nil
	})
	switch {
	case err == nil && errs == nil:
		return make([]error, len(pending))
	case err == nil && len(errs) == len(pending):
		return errs
	case err == nil:
		err = fmt.Errorf("outbox: the publisher returned %d errors for %d messages", len(errs), len(pending))
	}
	return slices.Repeat([]error{err}, len(pending))
}

// refused reports whether the broker will always refuse the message.
func (r *Relay) refused(err error) bool {
	class := r.reads.Means(err).Class
	return class == policy.ClassClient || class == policy.ClassBusiness
}

// passing reports whether a failure says nothing against the message.
func (r *Relay) passing(err error) bool {
	class := r.reads.Means(err).Class
	return class.Transient() || class == policy.ClassIgnored || class == policy.ClassRejected
}

// mark writes down what the broker has confirmed, also when ctx has ended.
func (r *Relay) mark(ctx context.Context) error {
	err := r.markRows(ctx, r.unmarked, r.newest)
	if err == nil {
		r.unmarked = r.unmarked[:0]
	}
	return err
}

func (r *Relay) markRows(ctx context.Context, seqs []int64, newest int64) error {
	if len(seqs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	return r.rows.published(ctx, seqs, newest, r.options.Keep)
}

// briefly is the longest rest while the broker answers, if only with refusals: it may take the
// messages that come later.
const briefly = 5 * time.Second

// rest is how long to rest when nothing could be published: at least until the dependency
// says that it can be had again.
func (r *Relay) rest(cause error) rest {
	r.fruitless++
	until := rest{d: troubled.Delay(min(r.fruitless, 1000)-1, 0, rand.Float64())}
	var refusal *gabion.Error
	if errors.As(cause, &refusal) {
		until.d = max(until.d, refusal.RetryAfter)
	}
	if !unasked(cause) && !r.passing(cause) {
		until = rest{d: min(until.d, briefly), wakes: true}
	}
	r.tell(Notice{Kind: noticeResting, Rest: until.d, Err: cause})
	return until
}

// lapsed is the error of an attempt under a lease that is over. It says nothing of the
// broker.
type lapsed struct{}

// Error implements error.
func (lapsed) Error() string { return errLost.Error() }

// Outcome implements what package classify reads.
func (lapsed) Outcome() policy.Outcome {
	return policy.Outcome{Class: policy.ClassIgnored, Stop: true, NeverSent: true}
}
