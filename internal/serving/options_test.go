package serving

import (
	"context"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/learned"
)

func TestWhatARequestShowsOfTheServer(t *testing.T) {
	background := context.Background()
	gone, leave := context.WithCancel(background)
	leave()
	late, cancel := context.WithDeadline(background, time.Now().Add(-time.Second))
	defer cancel()
	for _, c := range []struct {
		fact string
		ctx  context.Context
		done bool
		want learned.Verdict
	}{
		{"an answer is work done", background, true, learned.Worked},
		{"an answer after the deadline is late or was in a hurry", late, true, learned.Left},
		{"an answer to a caller who has gone is late or was in a hurry", gone, true, learned.Left},
		{"a panic shows nothing", background, false, learned.Nothing},
		{"a panic whose caller has gone shows nothing", gone, false, learned.Nothing},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got := Verdict(c.ctx, c.done); got != c.want {
				t.Errorf("it shows %d, want %d", got, c.want)
			}
		})
	}
}
