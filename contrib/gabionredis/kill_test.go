package gabionredis_test

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// Callers who count know how much was counted, whatever becomes of the server: what is there
// lies between what they know was done and what they were told may have been.
func TestNobodyCountsTwice(t *testing.T) {
	tests := []struct {
		name string
		harm func(*testservers.Server)
	}{
		{"killed and restarted", func(s *testservers.Server) { s.Kill(); s.Restart() }},
		{"stopped and continued", func(s *testservers.Server) {
			signal(s, syscall.SIGSTOP)
			<-time.After(400 * time.Millisecond) // longer than an attempt may take
			signal(s, syscall.SIGCONT)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			server := testservers.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
			p := quick()
			p.Timeout = policy.Timeout{Attempt: 200 * time.Millisecond, Call: 2 * time.Second}
			p.Breaker.Off = true
			d := gabion.New("counter", p)
			c := use(t, options(server.Addr), d)
			var done, unknown, refused, stop atomic.Int64
			var all sync.WaitGroup
			for w := range 16 {
				all.Go(func() {
					for stop.Load() == 0 {
						var err error
						switch w % 3 {
						case 0:
							err = c.Incr(t.Context(), "n").Err()
						case 1:
							_, err = c.Pipelined(t.Context(), func(p redis.Pipeliner) error { p.Get(t.Context(), "n"); p.Incr(t.Context(), "n"); return nil })
						case 2:
							_, err = c.TxPipelined(t.Context(), func(p redis.Pipeliner) error { p.Incr(t.Context(), "n"); return nil })
						}
						switch {
						case err == nil || err == redis.Nil:
							done.Add(1)
						case gabion.EffectOf(err) == policy.UnknownEffect:
							unknown.Add(1)
						default:
							refused.Add(1)
							<-time.After(time.Millisecond)
						}
					}
				})
			}
			for range 3 {
				for from := done.Load(); done.Load() < from+200; {
					<-time.After(time.Millisecond)
				}
				tt.harm(server)
			}
			stop.Store(1)
			all.Wait()
			admin := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer admin.Close()
			n, err := admin.Get(t.Context(), "n").Int64()
			t.Logf("%d counted; %d done, %d unknown, %d refused", n, done.Load(), unknown.Load(), refused.Load())
			if err != nil || n < done.Load() || n > done.Load()+unknown.Load() {
				t.Errorf("%d counted, %d done, %d unknown: %v", n, done.Load(), unknown.Load(), err)
			}
			nothingHeld(t, d)
			c.Close()
			admin.Close()
			for limit := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+8; <-time.After(time.Millisecond) {
				if time.Now().After(limit) {
					stacks := make([]byte, 1<<16)
					t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, strings.TrimSpace(string(stacks[:runtime.Stack(stacks, true)])))
				}
			}
		})
	}
}

func signal(s *testservers.Server, sig syscall.Signal) {
	if p, err := os.FindProcess(s.Pid()); err == nil {
		p.Signal(sig)
	}
}
