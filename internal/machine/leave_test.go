package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// A call is in its partition, which is not evicted then, until all that it has out has come
// home, and no longer: else nobody's partition could ever be evicted.
func TestACallLeavesItsPartitionWithTheLastThatIsOut(t *testing.T) {
	const s = clock.Instant(time.Second)
	for _, c := range []struct {
		name string
		play func(c *Call, inside func(int32, string))
	}{
		{"an open result", func(c *Call, inside func(int32, string)) {
			sent := c.Next(0).Ticket
			c.Settle(1, sent, policy.Outcome{Class: policy.ClassSuccess, Open: true})
			c.Next(1)
			inside(1, "while it is open")
			c.Release(2, sent, false)
		}},
		{"an open result of the second attempt", func(c *Call, inside func(int32, string)) {
			c.Settle(1, c.Next(0).Ticket, policy.Outcome{Class: policy.ClassServer})
			sent := c.Next(1).Ticket // the hedge, brought forward
			c.Settle(2, sent, policy.Outcome{Class: policy.ClassSuccess, Open: true})
			c.Next(2)
			inside(1, "while it is open")
			c.Release(3, sent, false)
		}},
		{"a hedge that lost", func(c *Call, inside func(int32, string)) {
			first, second := c.Next(0).Ticket, c.Next(s).Ticket
			c.Settle(s+1, first, policy.Outcome{Class: policy.ClassSuccess})
			c.Next(s + 1)
			inside(1, "while the hedge is out")
			c.Settle(s+2, second, policy.Outcome{Class: policy.ClassNetwork, Effect: policy.UnknownEffect})
		}},
		{"a first that lost", func(c *Call, inside func(int32, string)) {
			first, second := c.Next(0).Ticket, c.Next(s).Ticket
			c.Settle(s+1, second, policy.Outcome{Class: policy.ClassSuccess})
			c.Next(s + 1)
			inside(1, "while the first is out")
			c.Settle(s+2, first, policy.Outcome{Class: policy.ClassNetwork, Effect: policy.UnknownEffect})
		}},
		{"nothing out", func(c *Call, inside func(int32, string)) {
			c.Settle(1, c.Next(0).Ticket, policy.Outcome{Class: policy.ClassSuccess})
			c.Next(1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Minute}, Hedge: policy.Hedge{Max: 1, Delay: time.Second}}
			state := NewState(0, rulesOf(t, p), Setup{Seed: 1})
			var call Call
			call.Begin(state, 0, &Params{Partition: "a"})
			inside := func(want int32, when string) {
				t.Helper()
				if got := state.partitions().byName["a"].out.Load(); got != want {
					t.Errorf("%s: %d calls are in the partition, want %d", when, got, want)
				}
			}
			inside(1, "after its beginning")
			c.play(&call, inside)
			inside(0, "at the end")
		})
	}
}
