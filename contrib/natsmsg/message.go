package natsmsg

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

// message returns what a Consumer needs to know of a delivery.
func (s *subscription) message(it *item) consumer.Message {
	m := consumer.Message{
		Message:    inbox.Message{ID: idOf(it.raw, s.o.ID), Payload: it.raw.Data, Headers: headersOf(it.raw.Header), Delivery: it.delivered + it.tries},
		Source:     s.sources.name(s.stream, it.raw.Subject),
		Position:   strconv.FormatUint(it.seq, 10),
		Visibility: s.visibility,
	}
	m.Order, m.Tenant = it.order, ask(s.o.Tenant, it.raw)
	if !s.o.NoHeartbeat {
		m.Extend = func(ctx context.Context) error {
			_, err := s.nc.RequestWithContext(ctx, it.raw.Reply, inProgress) // until the broker has heard it
			return err
		}
	}
	return m
}

// mostSources is about how many subjects have their names kept.
const mostSources = 1000

// sources are the names of subjects.
type sources struct {
	known sync.Map
	kept  atomic.Int64 // how many there are
}

// name returns how a subject of a stream is called.
func (k *sources) name(stream, subject string) string {
	if known, ok := k.known.Load(subject); ok {
		return known.(string)
	}
	text := stream + "/" + subject
	if k.kept.Add(1) <= mostSources {
		k.known.Store(text[len(stream)+1:], text)
	}
	return text
}

// idOf returns the sender's name for a message, or what otherwise gives.
func idOf(m *nats.Msg, otherwise func(*nats.Msg) string) string {
	if id := m.Header.Get(message.Key); id != "" {
		return id
	}
	if id := m.Header.Get(jetstream.MsgIDHeader); id != "" {
		return id
	}
	for name, values := range m.Header { // other programs write names in other cases
		if strings.EqualFold(name, message.Key) && len(values) > 0 && values[0] != "" {
			return values[0]
		}
	}
	return ask(otherwise, m)
}

// ask asks a function of the user about a message. No function, and one that panics, says
// nothing.
func ask(f func(*nats.Msg) string, m *nats.Msg) (text string) {
	if f == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return f(m)
}

// headersOf returns headers in the order of their names.
func headersOf(h nats.Header) message.Headers {
	if len(h) == 0 {
		return nil
	}
	all := make(message.Headers, 0, len(h))
	for name, values := range h {
		for _, v := range values {
			all = append(all, message.Header{Name: name, Value: v})
		}
	}
	if len(h) > 1 {
		slices.SortStableFunc(all, func(a, b message.Header) int { return strings.Compare(a.Name, b.Name) })
	}
	return all
}

// natsHeaders returns headers as NATS has them, without those that tell a NATS server to do
// something, and without line breaks, which no header can have.
func natsHeaders(all message.Headers) nats.Header {
	h := nats.Header{}
	for _, one := range all {
		if !strings.HasPrefix(one.Name, "Nats-") {
			h.Add(one.Name, oneLine(one.Value))
		}
	}
	return h
}

// sendable reports whether the client sends headers of that name. It reads any.
func sendable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"()/,:;<=>?@[\\]{}", r) })
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, text)
}
