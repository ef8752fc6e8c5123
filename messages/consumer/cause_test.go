package consumer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// Work that asks for nothing but the cause learns of every end.
func TestWorkThatAsksForTheCauseAloneLearnsOfTheEnd(t *testing.T) {
	errStop := errors.New("stop")
	for _, c := range []struct {
		fact string
		p    policy.Timeout
		m    func(*consumer.Message)
		stop time.Duration
		want error
	}{
		{"the message's deadline", policy.Timeout{Call: time.Hour, Attempt: time.Hour}, func(m *consumer.Message) {
			m.Headers = m.Headers.WithDeadline(time.Now().Add(time.Second))
		}, 0, inbox.ErrExpired},
		{"the attempt's timeout", policy.Timeout{Call: time.Hour, Attempt: time.Second}, func(*consumer.Message) {}, 0, policy.AttemptTimeout},
		{"the caller's end", policy.Timeout{Call: time.Hour, Attempt: time.Hour}, func(*consumer.Message) {}, time.Second, errStop},
		{"a message that is not kept", policy.Timeout{Call: time.Hour, Attempt: time.Hour}, func(m *consumer.Message) {
			m.Visibility, m.Extend = time.Second, func(context.Context) error { return errWork }
		}, 0, inbox.ErrNotKept},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := unguarded
			p.Timeout = c.p
			k := newDesk(t, p, consumer.Options{})
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			if c.stop > 0 {
				time.AfterFunc(c.stop, func() { stop(errStop) })
			}
			m := order(1)
			c.m(&m)
			var left context.Context
			var ended error // as the work saw it
			k.Handle(ctx, m, func(ctx context.Context) error {
				left = ctx
				if cause := context.Cause(ctx); cause != nil {
					t.Errorf("%s: it begins with the cause %v", c.fact, cause)
				}
				for range 3000 {
					if cause := context.Cause(ctx); cause != nil {
						if ended = ctx.Err(); !errors.Is(cause, c.want) || ended == nil {
							t.Errorf("%s: %v, %v", c.fact, cause, ended)
						}
						return cause
					}
					time.Sleep(time.Millisecond)
				}
				t.Errorf("%s: after three seconds there is no cause, and the context ends with %v", c.fact, ctx.Err())
				return nil
			})
			err, cause := left.Err(), context.Cause(left)
			time.Sleep(time.Hour)
			if err != ended || left.Err() != err || context.Cause(left) != cause {
				t.Errorf("%s: the end was %v, then %v because of %v, and is %v because of %v later", c.fact, ended, err, cause, left.Err(), context.Cause(left))
			}
		})
	}
}
