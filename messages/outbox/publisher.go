package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A Publisher hands messages to a broker. It is called by one goroutine at a time.
type Publisher interface {
	// Publish publishes messages and returns when the broker has confirmed or refused each
	// of them, or ctx has ended. It returns nil if all were confirmed, or else an error for each
	// message, in their order, nil for those that were confirmed. Where it does not return for
	// as long as a lease after ctx has ended, its relay gives the lease up.
	//
	// The messages have no order among each other, so that all may be on their way at the
	// same time: no two are of the same aggregate. Those that were not confirmed come
	// again.
	//
	// An error that the dependency's classifier finds permanent, as one that is marked by
	// classify.Permanent, parks its message, if others are confirmed. Mark by it what the
	// broker will always refuse. An error that wraps ErrNoTopic sets its message aside, and
	// parks it after RelayOptions.MaxFailures, whether or not others are confirmed.
	Publish(ctx context.Context, messages []Message) []error
}

// ErrNoTopic says that the broker answers, and has nothing that takes messages of the topic. A
// [Publisher] returns it where it knows that, together with classify.Permanent: it says nothing
// against the broker, and the topic may exist soon.
var ErrNoTopic = errors.New("outbox: the broker has nothing that takes messages of the topic")

// Each returns a Publisher that calls publish for each message, for at most parallel of them
// at the same time. Less than one means one. A panic of publish is the error of its message.
func Each(parallel int, publish func(context.Context, Message) error) Publisher {
	return each{max(parallel, 1), publish}
}

type each struct {
	parallel int
	publish  func(context.Context, Message) error
}

// Publish implements [Publisher].
func (e each) Publish(ctx context.Context, messages []Message) []error {
	errs := make([]error, len(messages))
	var all sync.WaitGroup
	slots := make(chan struct{}, e.parallel)
	for i, m := range messages {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = errLeft
			errs[i] = guarded(func() error { return e.publish(ctx, m) })
		})
	}
	all.Wait()
	return errs
}

// errLeft is of a Publisher that called runtime.Goexit.
var errLeft = errors.New("outbox: the publisher ended its goroutine")

// A panicError is a panic of a Publisher.
type panicError struct{ value any }

func (p *panicError) Error() string {
	return fmt.Sprintf("outbox: the publisher panicked: %v", p.value)
}

// Unwrap returns what the publisher panicked with, if it is an error.
func (p *panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

func guarded(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
		}
	}()
	return do()
}
