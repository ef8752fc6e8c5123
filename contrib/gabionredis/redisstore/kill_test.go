package redisstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

// D: what a server acknowledged that syncs each write is there after a kill. (That
// the disk has it, not just the system, is the server's word.)
func TestRecordsSurviveAKill(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) { survive(t, start(t, durable...)) })
	}
}

func survive(t *testing.T, server *testservers.Server) {
	direct := &rig{TB: t, client: dial(t, server.Addr)}
	direct.Store = open(t, direct.client)
	total := 0
	for cycle := range size(5, 50) {
		client := dialWith(t, redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
		s := open(t, client)
		var mu sync.Mutex
		acknowledged := map[idempotency.Ref]idempotency.State{}
		goal, enough := 20+rand.N(200), make(chan struct{})
		var all sync.WaitGroup
		for w := range 16 {
			all.Go(func() {
				for n := 0; ; n++ {
					c := claimOf(fmt.Sprint(cycle, w, n))
					a, err := s.Begin(t.Context(), c)
					if err != nil {
						return
					}
					ref, state := idempotency.Ref{ID: c.ID, Token: a.Record.Token}, idempotency.StateRunning
					if err = s.Apply(t.Context(), ref, completed("x")); err == nil {
						state = idempotency.StateDone
					}
					mu.Lock()
					acknowledged[ref] = state
					if len(acknowledged) == goal {
						close(enough)
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		<-enough
		server.Kill()
		all.Wait()
		server.Restart()
		for ref, state := range acknowledged {
			got := direct.get(ref.ID)
			if got.Token != ref.Token || got.State != state && got.State != idempotency.StateDone {
				t.Errorf("cycle %d: %v by %d was acknowledged, and now it is %v by %d", cycle, state, ref.Token, got.State, got.Token)
			}
		}
		total += len(acknowledged)
	}
	t.Logf("%d acknowledged runs", total)
}

// What the warning says is true.
func TestAServerWithoutAFileForgets(t *testing.T) {
	server := testservers.StartRedis(t)
	r := &rig{TB: t, client: dial(t, server.Addr)}
	r.Store = open(t, r.client)
	wantWarnings(t, r.Caps(), false, noFile)
	ref := r.begin(claimOf("k"), idempotency.DecisionRun)
	server.Restart()
	if got := r.get(ref.ID).State; got != idempotency.StateAbsent {
		t.Errorf("a record is %v after a restart", got)
	}
}
