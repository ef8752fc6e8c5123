package testsplit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
)

// Records is a store of records whose network breaks. The effects are elsewhere.
type Records struct {
	Addr   string            // of its server
	Direct idempotency.Store // past what breaks
	Faults []testproxy.Fault // what the network does, beside nothing

	// Open opens the store by another address. It need not answer for longer than patient.
	Open func(t testing.TB, addr string, patient time.Duration) idempotency.Store
}

// RunRecords has three processes work on few keys while their networks break. A witness that none of them
// knows counts the effects. On a busy machine little happens in a lease, which is longer then.
func RunRecords(t *testing.T, r Records) {
	episodes := 20
	if os.Getenv("GABION_SOAK") == "1" {
		episodes = 100
	}
	var sum tally
	for lease := 100 * time.Millisecond; lease < 10*time.Second && !sum.enough(); lease *= 2 {
		t.Run(lease.String(), func(t *testing.T) {
			for n := range episodes {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					newHistory(t, r, lease, &sum).run()
				})
			}
		})
	}
	t.Logf("%d effects, %d calls without an answer, %d leases lost, %d replays",
		sum.effects.Load(), sum.unanswered.Load(), sum.refused.Load(), sum.replayed.Load())
	if !sum.enough() {
		t.Error("too little happened to prove anything")
	}
}

// A tally is what happened in all episodes.
type tally struct{ effects, unanswered, refused, replayed atomic.Int64 }

func (t *tally) enough() bool {
	return t.effects.Load() >= 50 && t.unanswered.Load() >= 100 && t.refused.Load() >= 5 && t.replayed.Load() >= 100
}

// A history is what became of some keys in one episode.
type history struct {
	*testing.T
	Records
	nets   []*testproxy.Proxy
	stores []idempotency.Store
	begun  time.Time
	lease  time.Duration
	lasts  time.Duration
	sum    *tally

	mu      sync.Mutex // guards all below
	keys    map[string]idempotency.Claim
	effects map[string][]int64 // tokens under which the work was done
	done    map[string]int64   // token whose result was acknowledged
	replays map[string]string
}

func newHistory(t *testing.T, r Records, lease time.Duration, sum *tally) *history {
	h := &history{
		T: t, Records: r, lease: lease, lasts: 6 * lease, sum: sum, keys: map[string]idempotency.Claim{},
		effects: map[string][]int64{}, done: map[string]int64{}, replays: map[string]string{},
	}
	for range 3 {
		p := testproxy.New(t, r.Addr)
		h.nets = append(h.nets, p)
		h.stores = append(h.stores, r.Open(t, p.Addr, lease/3))
	}
	h.begun = time.Now()
	return h
}

func (h *history) over() bool { return time.Since(h.begun) > h.lasts }

func (h *history) run() {
	var all sync.WaitGroup
	for _, s := range h.stores {
		for range 2 {
			all.Go(func() { h.work(s) })
		}
	}
	for !h.over() {
		fault := append(h.Faults, testproxy.Fault{})[rand.IntN(len(h.Faults)+1)]
		if fault.Requests == testproxy.Delay {
			fault.Most = 2 * h.lease
		}
		h.nets[rand.IntN(len(h.nets))].Set(fault)
		h.pass(rand.N(h.lease / 3))
	}
	h.everywhere(testproxy.Fault{})
	all.Wait()
	h.pass(3 * h.lease)                       // what was delayed arrives, and leases end
	h.everywhere(testproxy.Fault{Down: true}) // what has not by now never will
	h.everywhere(testproxy.Fault{})
	for key, c := range h.keys {
		h.check(key, c)
	}
}

// pass lets time pass, which is the server's own: its leases end in no bubble.
func (h *history) pass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-h.Context().Done():
	}
}

func (h *history) everywhere(f testproxy.Fault) {
	for _, p := range h.nets {
		p.Set(f)
	}
}

func completed(body string) idempotency.Change {
	return idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: []byte(body)}}
}

// work is what a handler does, with the store alone.
func (h *history) work(s idempotency.Store) {
	for !h.over() {
		// Keys change, or in the end all would be done.
		key := fmt.Sprint(h.Name(), " ", time.Since(h.begun)/(h.lasts/2), " ", rand.IntN(6))
		c := idempotency.Claim{ID: idempotency.IDOf("split", key), Fingerprint: [32]byte{1}, Lease: h.lease, Retention: 24 * time.Hour}
		c.Guarantee = idempotency.Guarantee(len(key)+int(key[len(key)-1])) % 2
		c.Owner = [16]byte{byte(rand.Int()), byte(rand.Int()), byte(rand.Int()), byte(rand.Int()), byte(rand.Int())}
		h.mu.Lock()
		h.keys[key] = c
		h.mu.Unlock()
		var a idempotency.Answer
		if h.again(3, func(ctx context.Context) (err error) { a, err = s.Begin(ctx, c); return err }) != nil {
			continue
		}
		switch a.Decision {
		case idempotency.DecisionRun:
			h.effect(s, key, idempotency.Ref{ID: c.ID, Token: a.Record.Token})
		case idempotency.DecisionReplay:
			h.replayed(key, string(a.Record.Result.Body))
		}
	}
}

// again repeats what was not answered, as package idempotency does.
func (h *history) again(times int, do func(context.Context) error) (err error) {
	for range times {
		ctx, cancel := context.WithTimeout(context.Background(), h.lease/2)
		err = do(ctx)
		cancel()
		if err == nil || errors.Is(err, idempotency.ErrLeaseLost) {
			break
		}
		h.sum.unanswered.Add(1)
		h.pass(time.Millisecond) // some stores say at once that there is no connection
	}
	return err
}

func (h *history) untilAnswered(do func(context.Context) error) (err error) {
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if err = h.again(1, do); err == nil || errors.Is(err, idempotency.ErrLeaseLost) {
			break
		}
	}
	return err
}

func (h *history) effect(s idempotency.Store, key string, ref idempotency.Ref) {
	h.sum.effects.Add(1)
	h.mu.Lock()
	if slices.Contains(h.effects[key], ref.Token) {
		h.Errorf("%s: token %d was granted twice", key, ref.Token)
	}
	h.effects[key] = append(h.effects[key], ref.Token)
	h.mu.Unlock()
	if rand.IntN(2) == 0 {
		h.pass(rand.N(2 * h.lease)) // some are overtaken
	}
	if rand.IntN(3) == 0 {
		_ = h.again(1, func(ctx context.Context) error {
			return s.Apply(ctx, ref, idempotency.Change{State: idempotency.StateRunning, Lease: h.lease})
		})
	}
	err := h.again(3, func(ctx context.Context) error { return s.Apply(ctx, ref, completed(fmt.Sprint(ref.Token))) })
	if errors.Is(err, idempotency.ErrLeaseLost) {
		h.sum.refused.Add(1)
	}
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if first, twice := h.done[key]; twice {
		h.Errorf("%s: done by %d, and by %d", key, first, ref.Token)
	}
	h.done[key] = ref.Token
}

func (h *history) replayed(key, body string) {
	h.sum.replayed.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if first, twice := h.replays[key]; twice && first != body { // I3
		h.Errorf("%s: replayed %q, and %q", key, first, body)
	}
	h.replays[key] = body
}

// check compares the record with what the witness saw.
func (h *history) check(key string, c idempotency.Claim) {
	ran := h.effects[key]
	if c.Guarantee == idempotency.GuaranteeHold && len(ran) > 1 { // I1
		h.Errorf("%s: %d effects under hold: %v", key, len(ran), ran)
	}
	c.Owner = [16]byte{255, 255}
	a, err := h.Direct.Begin(h.Context(), c)
	for limit := time.Now().Add(time.Minute); err == nil && a.Decision == idempotency.DecisionInProgress && time.Now().Before(limit); {
		h.pass(max(a.Left, time.Millisecond)) // a lease that was granted late
		a, err = h.Direct.Begin(h.Context(), c)
	}
	if err != nil || a.Decision == idempotency.DecisionInProgress { // I6
		h.Errorf("%s is stuck: %v, %v", key, a.Decision, err)
	}
	last := a.Record
	if len(ran) > last.Attempt { // I1
		h.Errorf("%s: %d effects in %d attempts", key, len(ran), last.Attempt)
	}
	if token, done := h.done[key]; done && (last.State != idempotency.StateDone || last.Token != token || string(last.Result.Body) != fmt.Sprint(token)) { // I4
		h.Errorf("%s: done by %d, and now it is %v by %d: %q", key, token, last.State, last.Token, last.Result.Body)
	}
	if body, replayed := h.replays[key]; replayed && string(last.Result.Body) != body { // I2
		h.Errorf("%s: %q was replayed, and now it is %q", key, body, last.Result.Body)
	}
	before := h.stored(c.ID)
	for _, token := range ran {
		if token == last.Token {
			continue
		}
		for _, s := range append(h.stores, h.Direct) { // the networks are whole again
			err := h.untilAnswered(func(ctx context.Context) error {
				return s.Apply(ctx, idempotency.Ref{ID: c.ID, Token: token}, completed("zombie"))
			})
			if !errors.Is(err, idempotency.ErrLeaseLost) { // I5
				h.Errorf("%s: %d was overtaken by %d, and may still change it: %v", key, token, last.Token, err)
			}
		}
	}
	if !bytes.Equal(h.stored(c.ID), before) {
		h.Errorf("%s: a stale token changed the record", key)
	}
}

func (h *history) stored(id idempotency.ID) []byte {
	r, err := h.Direct.Get(h.Context(), id)
	text, wrong := r.MarshalBinary()
	if err := errors.Join(err, wrong); err != nil {
		h.Error(err)
	}
	return text
}
