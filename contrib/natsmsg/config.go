package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/policy"
)

// Config returns the configuration of a JetStream consumer that suits c: durable, explicitly
// acknowledged, delivered as often as it takes, since the policy says when a message is given
// up. Set its FilterSubject and what else you need.
func Config(c *consumer.Consumer, durable string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: -1,
		MaxAckPending: 10_000 + 10*c.Slots(0), // messages that wait for a retry count
	}
}

// leastVisibility is the shortest AckWait that heartbeats can prolong in time on a busy
// machine.
const leastVisibility = 100 * time.Millisecond

// leastThreshold is the shortest InactiveThreshold: an outage is mostly shorter.
const leastThreshold = time.Hour

// visibility returns for how long the broker keeps a delivery from others.
func visibility(cfg *jetstream.ConsumerConfig) time.Duration {
	if cfg.AckWait <= 0 {
		return 30 * time.Second
	}
	return cfg.AckWait
}

// check returns everything about a JetStream consumer that would lose messages, stop them, or
// have them worked on twice.
func check(cfg *jetstream.ConsumerConfig, p policy.Policy, atOnce int, o *Options) error {
	p = p.Resolved()
	var all []error
	no := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	switch {
	case cfg.DeliverSubject != "":
		no("deliver subject: it is a push consumer: make one without")
	case cfg.AckPolicy != jetstream.AckExplicitPolicy:
		no("ack policy: %v acknowledges messages whose work is not done: set AckExplicitPolicy", cfg.AckPolicy)
	case cfg.HeadersOnly:
		no("headers only: the work needs the payloads: unset it")
	case cfg.PriorityPolicy != jetstream.PriorityPolicyNone:
		no("priority policy: it is not supported: unset it")
	}
	if cfg.MaxDeliver > 0 {
		no("max deliver: after %d deliveries the broker drops a message in silence, and those that were no runs count, as when a process stops: set -1, since the policy says when a message is given up", cfg.MaxDeliver)
	}
	if len(cfg.BackOff) > 0 {
		no("back off: the broker adds it to the waits of the policy: set ack wait in place of it")
	}
	if t := cfg.InactiveThreshold; t > 0 && t < leastThreshold {
		no("inactive threshold: the broker deletes the consumer when nothing was asked of it for %v, as while the breaker is open: make it durable and unset it, or set %v at least", t, leastThreshold)
	}
	seen := visibility(cfg)
	if seen < leastVisibility {
		no("ack wait: %v is too short to be prolonged: set %v at least", seen, leastVisibility)
	}
	if t := p.Timeout.Attempt; o.NoHeartbeat && (t <= 0 || t >= seen) {
		no("ack wait: without heartbeats the broker delivers again after %v, and an attempt may take %v: set more, or use heartbeats", seen, t)
	}
	if cfg.MaxAckPending > 0 && cfg.MaxAckPending < atOnce {
		no("max ack pending: the broker stops at %d messages, and %d may be worked on at once: set more, or bulkhead.limit to %d", cfg.MaxAckPending, atOnce, cfg.MaxAckPending)
	}
	return errors.Join(all...)
}

// checkDead returns what is wrong with the place for dead letters.
func checkDead(ctx context.Context, js jetstream.JetStream, stream string, cfg *jetstream.ConsumerConfig, c *consumer.Consumer, o *Options) error {
	switch {
	case c.KeepsLetters():
		return nil
	case o.DeadSubject == "":
		return errors.New("dead letters: nothing keeps them: set consumer.Options.Letters, or Options.DeadSubject")
	}
	where, err := js.StreamNameBySubject(ctx, o.DeadSubject)
	if err != nil {
		return fmt.Errorf("dead subject: %s: no stream stores it: %w", o.DeadSubject, err)
	}
	if where != stream {
		return nil
	}
	filters := cfg.FilterSubjects
	if cfg.FilterSubject != "" {
		filters = append(slices.Clone(filters), cfg.FilterSubject)
	}
	if len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool { return matches(f, o.DeadSubject) }) {
		return fmt.Errorf("dead subject: %s: this consumer reads it itself", o.DeadSubject)
	}
	return nil
}

// matches reports whether a subject is one of those that a filter with wildcards names.
func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s), token != "*" && token != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}
