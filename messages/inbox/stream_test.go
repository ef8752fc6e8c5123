package inbox

import (
	"context"
	"slices"
	"testing"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// told keeps the codes of what a Stream gets, and panics after each.
type told []string

func (s *told) Observe(_ context.Context, e policy.Event) {
	*s = append(*s, e.Kind.String()+" "+e.Dependency+" "+e.Code)
	panic("a stream takes nothing from a message")
}

func TestEachMessageIsOneEventOfTheStream(t *testing.T) {
	for _, g := range guarantees {
		t.Run(g.String(), func(t *testing.T) {
			s := new(told)
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g, Stream: s}}, succeeds)
			p.deliver(order("paid"))
			p.deliver(order("paid"))
			p.deliver(order("unpaid"))
			p.deliver(Message{Payload: []byte("paid")})
			want := []string{"ack/done", "ack/duplicate", "dead_letter/mismatch", "dead_letter/no_id"}
			for i := range want {
				want[i] = "message_disposed billing " + want[i]
			}
			if !slices.Equal(*s, want) {
				t.Errorf("told %q, want %q", *s, want)
			}
		})
	}
}
