package outbox

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
)

// A batch of messages that the broker refuses does not stop those behind it, also where nothing is confirmed in between. As nothing
// is, none of them is parked, and those of an aggregate wait for each other.
func TestRefusedMessagesThatFillABatchDoNotStopTheRest(t *testing.T) {
	for _, c := range []struct{ fact, rows, published, left string }{
		{"four fill it", "p1 p2 p3 p4 x1 x2", "x1 x2", "p1 p2 p3 p4"},
		{"two batches", "p1 p2 p3 p4 p5 p6 p7 p8 x1 x2", "x1 x2", "p1 p2 p3 p4 p5 p6 p7 p8"},
		{"more than are tried alone", "p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 p16 p17 p18 p19 p20 x1", "x1", "p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p11 p12 p13 p14 p15 p16 p17 p18 p19 p20"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var refused []string
				f := newFake(c.rows)
				for _, x := range f.rows {
					if x.Aggregate = ""; strings.HasPrefix(x.ID, "p") {
						refused = append(refused, x.ID)
					}
				}
				x := newTrial(t, f, &broker{publish: failing(classify.Permanent(errBroker), refused...)}, once, RelayOptions{Batch: 4}).start()
				pass(10 * time.Minute)
				x.stop()
				if got := x.broker.text(); got != c.published {
					t.Errorf("published %q, want %q", got, c.published)
				}
				if told := strings.Join(x.told, ","); strings.Contains(told, "parked") {
					t.Errorf("told %q: nothing is parked", told)
				}
				if got := len(strings.Fields(strings.ReplaceAll(f.state(), "/", " "))); got != len(refused) {
					t.Errorf("left %q, want %q", f.state(), c.left)
				}
			})
		})
	}
}

// A topic is down for five minutes, and has half of the messages. The others go on.
func TestATopicThatIsDownDoesNotStopTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var up atomic.Bool
		b := &broker{publish: func(_ context.Context, m Message) error {
			if !up.Load() && strings.HasPrefix(m.ID, "bad") {
				return classify.Transient(errBroker)
			}
			return nil
		}}
		f := newFake("")
		x := newTrial(t, f, b, once, RelayOptions{Batch: 50, Backoff: backoff.Equal(time.Second, 5*time.Minute)}).start()
		const each, minutes = 10, 5
		behind := 0
		for n := range minutes * 60 {
			f.mu.Lock()
			for k := range each {
				f.rows = append(f.rows, &row{seq: int64(1000*n + 2*k), Message: Message{ID: fmt.Sprint("bad", n, "-", k)}},
					&row{seq: int64(1000*n + 2*k + 1), Message: Message{ID: fmt.Sprint("ok", n, "-", k)}})
			}
			f.mu.Unlock()
			pass(time.Second)
			b.mu.Lock()
			behind = max(behind, (n+1)*each-len(b.got))
			b.mu.Unlock()
		}
		if behind > 60*each {
			t.Errorf("messages of other topics were %d behind, which is %d s: want a minute at most", behind, behind/each)
		}
		up.Store(true)
		pass(6 * time.Minute) // the longest backoff, and the work
		x.stop()
		if got := len(b.got); got != 2*each*minutes*60 {
			t.Errorf("published %d of %d", got, 2*each*minutes*60)
		}
	})
}
