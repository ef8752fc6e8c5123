// Package bad has messages that should not be, and says what has to become of each: of whatever
// went in there is an effect or one dead letter, whichever broker it came through. Messages tells
// them by what they are, and Ends by what their work does.
package bad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// A Message is one that is published, in the order of the table.
type Message struct {
	ID      string // of the broker's own, or in the header message.Key; empty for none
	Payload string
	Headers message.Headers
	Effect  bool   // whether its work has an effect
	Letter  string // the reason of the letter that it becomes; empty if it becomes none
}

// The bounds of a Desk.
const (
	maxPayload = 1000
	attempts   = 3
	patience   = 20 * time.Second
)

func header(name, value string) message.Headers {
	return message.Headers{{Name: name, Value: value}}
}

// Messages are all kinds of bad messages, and good ones after them that must not wait. The second
// of two that are the same has neither an effect nor a letter of its own.
func Messages() []Message {
	return []Message{
		{ID: "1", Payload: "poison", Letter: "attempts_exhausted"},
		{ID: "2", Payload: strings.Repeat("x", maxPayload+1), Letter: "too_large"},
		{ID: "3", Payload: strings.Repeat("y", maxPayload), Effect: true},
		{ID: "4", Payload: "\x00\xff\xfe", Effect: true},
		{ID: "5", Payload: "", Effect: true},
		{ID: "6", Payload: "a", Effect: true},
		{ID: "6", Payload: "b", Letter: "mismatch"},
		{ID: "6", Payload: "a"},
		{ID: "7", Payload: "past", Headers: header(message.Deadline, "1000"), Letter: "expired"},
		{ID: "8", Payload: "someday", Headers: header(message.Deadline, "tomorrow"), Letter: "header_unreadable"},
		{ID: "9", Payload: "of the future", Headers: header(message.Version, "2"), Letter: "unknown_version"},
		{ID: "10", Payload: "with an odd count", Headers: header(message.Attempt, "many"), Letter: "header_unreadable"},
		{ID: "11", Payload: "strange", Headers: header("Strange", "a\tb ☃"), Effect: true},
		{Payload: "without a name", Letter: "no_id"},
		{Payload: "without a name", Letter: "no_id"},
		{ID: "12", Payload: "last", Effect: true},
	}
}

// A Desk is a consumer that has them all, and the witness of what it does.
type Desk struct {
	*consumer.Consumer
	letters func() ([]deadletter.Letter, error)

	mu      sync.Mutex
	effects map[string]int // by id and payload
	runs    map[string]int
}

// Open returns a desk. A payload that begins with "poison" can't be handled, and only attempts
// bound it. What is in letters is asked of the given function, for a desk whose Options have no
// store, and else of that.
func Open(t testing.TB, o consumer.Options, letters func() ([]deadletter.Letter, error)) *Desk {
	t.Helper()
	p := policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: attempts, Backoff: backoff.Const(5 * time.Millisecond), Budget: policy.Budget{Off: true}}}
	o.GiveUpAfter = -1 // runs decide
	o.Inbox = inbox.Options{MaxPayload: maxPayload, RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}}
	c, err := consumer.New(gabion.New("bank", p), idempotency.NewMemoryStore(0, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	return &Desk{Consumer: c, letters: letters, effects: map[string]int{}, runs: map[string]int{}}
}

// All returns the letters of a store.
func All(ctx context.Context, s deadletter.Store) func() ([]deadletter.Letter, error) {
	return func() (all []deadletter.Letter, err error) {
		p, err := s.List(ctx, deadletter.Query{}, "", 100)
		for _, one := range p.Letters { // what is listed has no payload
			if one, err = s.Get(ctx, one.ID); err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, err
	}
}

var errBank = errors.New("the bank is busy")

// Work is what the desk does with a message.
func (d *Desk) Work(ctx context.Context) error {
	m := consumer.MessageFrom(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	name := nameOf(m.ID, m.Payload)
	d.runs[name]++
	if strings.HasPrefix(string(m.Payload), "poison") {
		return errBank
	}
	d.effects[name]++
	return nil
}

func nameOf(id string, payload []byte) string {
	return fmt.Sprintf("%s:%.20q/%d", id, payload, len(payload))
}

// Publish publishes all in their order. Before the second message of an ID comes, it waits until
// the first has had its effect, since a consumer may work on some at once.
func (d *Desk) Publish(t testing.TB, all []Message, publish func(Message) error) {
	t.Helper()
	first := map[string]Message{}
	for _, m := range all {
		if before, again := first[m.ID]; again && m.ID != "" {
			d.awaitEffect(t, before)
		} else {
			first[m.ID] = m
		}
		if err := publish(m); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *Desk) awaitEffect(t testing.TB, m Message) {
	t.Helper()
	name := nameOf(m.ID, []byte(m.Payload))
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		d.mu.Lock()
		done := d.effects[name] > 0
		d.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s had no effect", name)
		}
	}
}

// state is what became of messages: a line for each effect and for each letter.
func (d *Desk) state() (lines []string, err error) {
	letters, err := d.letters()
	for _, l := range letters {
		lines = append(lines, nameOf(l.Key, l.Payload)+" "+l.Reason)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, n := range d.effects {
		for range n {
			lines = append(lines, name+" effect")
		}
	}
	slices.Sort(lines)
	return lines, err
}

// Want waits until of each message there is what has to be, and checks that there is nothing else.
func (d *Desk) Want(t testing.TB, all []Message) {
	t.Helper()
	var want, is []string
	for _, m := range all {
		if m.Effect {
			want = append(want, nameOf(m.ID, []byte(m.Payload))+" effect")
		}
		if m.Letter != "" {
			want = append(want, nameOf(m.ID, []byte(m.Payload))+" "+m.Letter)
		}
	}
	slices.Sort(want)
	var err error
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if is, err = d.state(); err == nil && slices.Equal(is, want) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("is  %s\nnot %s\n%v", strings.Join(is, "\n    "), strings.Join(want, "\n    "), err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, n := range maps.All(d.runs) {
		if most := attempts; n > most || n > 1 && d.effects[name] > 0 {
			t.Errorf("%s was worked on %d times", name, n)
		}
	}
}
