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
