package outbox

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/messages/message"
)

func TestMessagesThatCanNotBeEnqueued(t *testing.T) {
	good := Message{ID: "k", Topic: "t"}
	with := func(change func(*Message)) Message {
		m := good
		change(&m)
		return m
	}
	for _, c := range []struct {
		name string
		m    Message
		want error
	}{
		{"the least", good, nil},
		{"255 bytes of ID", with(func(m *Message) { m.ID = strings.Repeat("k", 255) }), nil},
		{"256 bytes of ID", with(func(m *Message) { m.ID = strings.Repeat("k", 256) }), ErrMalformed},
		{"an ID of invalid UTF-8", with(func(m *Message) { m.ID = "\xff" }), ErrMalformed},
		{"an ID with a space", with(func(m *Message) { m.ID = "a b" }), ErrMalformed},
		{"a quoted ID", with(func(m *Message) { m.ID = `"a"` }), ErrMalformed},
		{"no topic", with(func(m *Message) { m.Topic = "" }), ErrMalformed},
		{"a topic of invalid UTF-8", with(func(m *Message) { m.Topic = "a\xff" }), ErrMalformed},
		{"an aggregate with a zero byte", with(func(m *Message) { m.Aggregate = "a\x00" }), ErrMalformed},
		{"an aggregate that is a book", with(func(m *Message) { m.Aggregate = strings.Repeat("a", 1025) }), ErrMalformed},
		{"as much payload as may be", with(func(m *Message) { m.Payload = make([]byte, 100) }), nil},
		{"more payload", with(func(m *Message) { m.Payload = make([]byte, 101) }), ErrTooLarge},
		{"many headers", with(func(m *Message) { m.Headers = message.Headers{{Name: "a", Value: strings.Repeat("x", 65<<10)}} }), ErrTooLarge},
		{"a header without a name", with(func(m *Message) { m.Headers = message.Headers{{Value: "x"}} }), ErrMalformed},
		{"the key's header says the same", with(func(m *Message) { m.Headers = message.Headers{{Name: message.Key, Value: "k"}} }), nil},
		{"the key's header says another", with(func(m *Message) { m.Headers = message.Headers{{Name: message.Key, Value: "x"}} }), ErrMalformed},
		{"the key's header is empty", Message{Topic: "t", Headers: message.Headers{{Name: message.Key}}}, ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := c.m.check(100, func() string { return "fresh" })
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err == nil && m.ID != c.m.ID {
				t.Errorf("ID %q", m.ID)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
	for _, c := range []struct {
		m    Message
		want string
	}{
		{Message{Topic: "t"}, "fresh"},
		{Message{Topic: "t", Headers: message.Headers{{Name: "IDEMPOTENCY-key", Value: "x"}}}, "x"},
	} {
		if m, err := c.m.check(100, func() string { return "fresh" }); err != nil || m.ID != c.want {
			t.Errorf("ID %q, %v, want %q", m.ID, err, c.want)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add(encode(nil), "a", "b")
	f.Add(encode(message.Headers{{Name: "a", Value: "\x00\xff"}, {}}), "", "\xff")
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, "", "")
	f.Fuzz(func(t *testing.T, stored []byte, name, value string) {
		if h, err := decode(stored); err == nil {
			again, err := decode(encode(h))
			if err != nil || !reflect.DeepEqual(again, h) {
				t.Errorf("%q, %v, want %q", again, err, h)
			}
		}
		h := message.Headers{{Name: name, Value: value}, {Name: value, Value: name}}
		if got, err := decode(encode(h)); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%q, %v, want %q", got, err, h)
		}
	})
}
