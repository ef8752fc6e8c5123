package gabionslog_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/policy"
)

// sum is a line that sums up, as far as these tests want to know.
type sum struct {
	Msg       string
	Level     slog.Level
	Count     int
	Succeeded int
	LastCode  string `json:"last_code"`
}

func (n *notebook) sums(t *testing.T) (all []sum) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for line := range strings.Lines(n.text.String()) {
		var s sum
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.Count > 0 {
			all = append(all, s)
		}
	}
	return all
}

// pause waits for a second, and at first for half of one: nothing happens just when a sum
// is due.
func pause(i int) {
	if i == 0 {
		time.Sleep(time.Second / 2)
		return
	}
	time.Sleep(time.Second)
}

// Each failed call here has no effect, so that none is a warning by itself.
func TestMostCallsFailingIsAWarning(t *testing.T) {
	for _, c := range []struct {
		fact       string
		dependency string // of the successes
		reason     gabion.Reason
		failed, ok int // in each of 30 seconds
		want       slog.Level
	}{
		{"all calls are held back", "bank", policy.Paced, 38, 0, slog.LevelWarn},
		{"all calls are refused connections", "bank", policy.BudgetExhausted, 10, 0, slog.LevelWarn},
		{"more fail than succeed", "bank", policy.AttemptsExhausted, 11, 10, slog.LevelWarn},
		{"as many succeed", "bank", policy.AttemptsExhausted, 10, 10, slog.LevelInfo},
		{"a small share fails", "bank", policy.AttemptsExhausted, 1, 99, slog.LevelInfo},
		{"all fail, and another dependency works", "shop", policy.AttemptsExhausted, 10, 90, slog.LevelWarn},
		{"all answers say no", "bank", policy.NotRetryable, 10, 0, slog.LevelInfo},
		{"the program's own limit", "bank", policy.RateLimited, 10, 0, slog.LevelInfo},
	} {
		for _, least := range []slog.Level{slog.LevelInfo, slog.LevelWarn} {
			synctest.Test(t, func(t *testing.T) {
				var n notebook
				o := &gabionslog.Observer{Logger: slog.New(slog.NewJSONHandler(&n, &slog.HandlerOptions{Level: least}))}
				for i := range 30 {
					for range c.failed {
						o.Observe(t.Context(), returned("bank", c.reason))
					}
					for range c.ok {
						o.Observe(t.Context(), returned(c.dependency, policy.None))
					}
					pause(i)
				}
				o.Flush()
				sums := n.sums(t)
				if want := 3; c.want >= least && len(sums) < want || c.want < least && len(sums) > 0 {
					t.Errorf("%s, logged from %s on: %d sums", c.fact, least, len(sums))
				}
				for _, s := range sums {
					if s.Level != c.want || s.Msg != "gabion: more calls failed" || c.dependency == "bank" && (s.Succeeded == 0) != (c.ok == 0) {
						t.Errorf("%s: %+v", c.fact, s)
					}
				}
			})
		}
	}
}

// A share is that of its interval: what succeeded before does not count.
func TestAShareIsOfItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		o := observer(&n)
		for i := range 30 {
			o.Observe(t.Context(), returned("bank", policy.AttemptsExhausted))
			if i < 10 {
				for range 1000 {
					o.Observe(t.Context(), returned("bank", policy.None))
				}
			}
			pause(i)
		}
		o.Flush()
		sums := n.sums(t)
		if len(sums) < 3 || sums[0].Level != slog.LevelInfo || sums[0].Succeeded < 9000 || sums[1].Level != slog.LevelWarn || sums[1].Succeeded > 1000 {
			t.Errorf("%+v", sums)
		}
	})
}

func TestASumSaysTheLastCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		o := observer(&n)
		for _, code := range []string{"500", "500", "503", ""} {
			e := returned("bank", policy.AttemptsExhausted)
			e.Code = code
			o.Observe(t.Context(), e)
		}
		o.Flush()
		if sums := n.sums(t); len(sums) != 1 || sums[0].LastCode != "503" {
			t.Errorf("%+v", sums)
		}
	})
}

// Real calls to a closed port: none has an effect, and no breaker opens.
func TestRefusedConnectionsAreAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		d := gabion.New("bank", policy.Policy{Breaker: policy.Breaker{Off: true}}, gabion.WithObserver(observer(&n)))
		for range 40 {
			d.Run(t.Context(), func(context.Context) error {
				return &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}, gabion.WithoutRetry())
			time.Sleep(time.Second)
		}
		synctest.Wait()
		sums := n.sums(t)
		if len(sums) == 0 || sums[0].Level != slog.LevelWarn {
			t.Errorf("%s", n.text.String())
		}
	})
}

// A success costs no allocation while calls fail, and after that is not counted.
func TestSuccessesCostNoAllocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		o := observer(&n)
		o.Observe(t.Context(), returned("bank", policy.AttemptsExhausted))
		ctx := t.Context()
		if k := testing.AllocsPerRun(100, func() { o.Observe(ctx, returned("bank", policy.None)) }); k != 0 {
			t.Errorf("%v allocations", k)
		}
	})
}

func TestSuccessesAreCountedBetweenGoroutines(t *testing.T) {
	var n notebook
	o := observer(&n)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				o.Observe(context.Background(), returned("bank", []gabion.Reason{policy.None, policy.AttemptsExhausted}[i%2]))
				if i%250 == 0 {
					o.Flush()
				}
			}
		})
	}
	all.Wait()
	o.Flush()
}
