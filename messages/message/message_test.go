package message_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/messages/message"
)

func TestHeadersAreFoundWhateverTheirCase(t *testing.T) {
	h := message.Headers{{Name: "idempotency-key", Value: "a"}, {Name: "Trace", Value: "1"}, {Name: "trace", Value: "2"}}
	if h.Get(message.Key) != "a" || h.Get("TRACE") != "1" || h.Get("none") != "" {
		t.Error("a header was not found")
	}
	changed := h.With("TRACE", "3")
	if len(changed) != 2 || changed.Get("trace") != "3" || h.Get("trace") != "1" || len(h) != 3 {
		t.Errorf("With made %v of %v", changed, h)
	}
}

// A caller sends one message to several topics, each with headers that it makes of the same ones.
func TestHeadersAreMadeOfOthersWhichStay(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(message.Headers) message.Headers
		want string
	}{
		{"Without the first", func(h message.Headers) message.Headers { return h.Without("GABION-attempt") }, "[{traceparent 00} {tenant t}]"},
		{"Without one in the middle", func(h message.Headers) message.Headers { return h.Without("Traceparent") }, "[{Gabion-Attempt 1} {tenant t}]"},
		{"Without one that is not there", func(h message.Headers) message.Headers { return h.Without("x") }, "[{Gabion-Attempt 1} {traceparent 00} {tenant t}]"},
		{"With another value", func(h message.Headers) message.Headers { return h.With("traceparent", "01") }, "[{Gabion-Attempt 1} {tenant t} {traceparent 01}]"},
		{"With one more", func(h message.Headers) message.Headers { return h.With("x", "y") }, "[{Gabion-Attempt 1} {traceparent 00} {tenant t} {x y}]"},
		{"WithDeadline", func(h message.Headers) message.Headers { return h.WithDeadline(time.UnixMilli(5)) }, "[{Gabion-Attempt 1} {traceparent 00} {tenant t} {Gabion-Deadline 5}]"},
		{"WithDeadline that takes none away", func(h message.Headers) message.Headers { return h.WithDeadline(time.Time{}) }, "[{Gabion-Attempt 1} {traceparent 00} {tenant t}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := message.Headers{{Name: message.Attempt, Value: "1"}, {Name: "traceparent", Value: "00"}, {Name: "tenant", Value: "t"}, {Name: "theirs", Value: "z"}}
			before := fmt.Sprint(all)
			if got := fmt.Sprint(c.make(all[:3])); got != c.want { // all[:3] has room for one more, which is not ours
				t.Errorf("made %s, want %s", got, c.want)
			}
			if after := fmt.Sprint(all); after != before {
				t.Errorf("its headers were %s and are %s", before, after)
			}
		})
	}
}

func TestHeadersThatCanNotBeReadAreErrors(t *testing.T) {
	for _, c := range []struct {
		name, header, value string
		want                error
	}{
		{"no headers are sound", "Other", "x", nil},
		{"an empty deadline is no deadline", message.Deadline, "", nil},
		{"a deadline in the past is readable", message.Deadline, "1", nil},
		{"a deadline in words", message.Deadline, "tomorrow", message.ErrHeader},
		{"a deadline in nanoseconds", message.Deadline, "1763856000000000000", message.ErrHeader},
		{"a negative deadline", message.Deadline, "-5", message.ErrHeader},
		{"an attempt in words", message.Attempt, "two", message.ErrHeader},
		{"more attempts than there can be", message.Attempt, "70000", message.ErrHeader},
		{"today's version", message.Version, "1", nil},
		{"tomorrow's version", message.Version, "2", message.ErrVersion},
		{"no version at all", message.Version, "0", message.ErrHeader},
		{"bytes", message.Version, "\xff\x00" + strings.Repeat("x", 1000), message.ErrHeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := message.Headers{{Name: c.header, Value: c.value}}.Check()
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("Check says %v, not %v", err, c.want)
			}
			if err != nil && len(err.Error()) > 200 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("Gabion-Deadline", "1763856000000")
	f.Fuzz(func(t *testing.T, name, value string) {
		h := message.Headers{{Name: name, Value: value}}
		if err := h.Check(); err != nil {
			return
		}
		if at, err := h.Deadline(); err != nil || at.Year() > 9999 {
			t.Errorf("a deadline of %v, %v passed", at, err)
		}
	})
}

func ExampleHeaders() {
	h := message.Headers{}.
		With(message.Key, "order-1042").
		WithDeadline(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	at, err := h.Deadline()
	fmt.Println(h.Get(message.Key), at.UTC().Format(time.TimeOnly), err)
	// Output: order-1042 12:00:00 <nil>
}
