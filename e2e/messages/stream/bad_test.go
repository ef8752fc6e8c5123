package stream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/contrib/sqlitestore/sqliteletters"
	"github.com/gabion-go/gabion/e2e/messages/bad"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
)

// Whatever comes through JetStream, it is handled or a dead letter, and what comes after it is
// handled.
func TestBadMessagesThroughJetStreamAreDeadLettersAndStopNothing(t *testing.T) {
	for name, open := range map[string]func(*rig) (*bad.Desk, string){
		"letters in SQLite": func(r *rig) (*bad.Desk, string) {
			letters, err := sqliteletters.Open(r.Context(), filepath.Join(r.dir, "letters.db"), deadletter.Options{})
			if err != nil {
				r.Fatal(err)
			}
			r.Cleanup(func() { letters.Close() })
			return bad.Open(r, consumer.Options{Letters: letters}, bad.All(r.Context(), letters)), ""
		},
		"letters in the stream": func(r *rig) (*bad.Desk, string) {
			return bad.Open(r, consumer.Options{}, r.published), "letters"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			desk, dead := open(r)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- natsmsg.Consume(ctx, r.js, "ORDERS", "bank", desk.Consumer, desk.Work, natsmsg.Options{DeadSubject: dead, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			}()
			desk.Publish(t, bad.Messages(), r.publishBad)
			desk.Want(t, bad.Messages())
			r.settled()
			desk.Want(t, bad.Messages())
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// publishBad publishes without Nats-Msg-Id: the broker would drop the second of two.
func (r *rig) publishBad(m bad.Message) error {
	msg := &nats.Msg{Subject: "orders", Header: nats.Header{}, Data: []byte(m.Payload)}
	for _, h := range m.Headers {
		msg.Header.Add(h.Name, h.Value)
	}
	if m.ID != "" {
		msg.Header.Set(message.Key, m.ID)
	}
	_, err := r.js.PublishMsg(r.Context(), msg)
	return err
}

// published returns the letters that natsmsg has published.
func (r *rig) published() (all []deadletter.Letter, err error) {
	s, err := r.js.Stream(r.Context(), "ORDERS")
	for seq := uint64(1); err == nil; {
		var m *jetstream.RawStreamMsg
		if m, err = s.GetMsg(r.Context(), seq, jetstream.WithGetMsgSubject("letters")); err != nil {
			break
		}
		seq = m.Sequence + 1
		all = append(all, deadletter.Letter{Key: m.Header.Get(message.Key), Payload: m.Data, Reason: m.Header.Get(natsmsg.DeadReason)})
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = nil
	}
	return all, err
}
