package idempotencytest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

func TestMemoryStore(t *testing.T) {
	if testing.Short() {
		t.Skip("long: leases end in real time; the same runs in virtual time")
	}
	Run(t, Config{Open: func(testing.TB) idempotency.Store { return idempotency.NewMemoryStore(0, 0) }})
}

// The same in a bubble, where leases end exactly.
func TestMemoryStoreInVirtualTime(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.run(&bench{TB: t, store: idempotency.NewMemoryStore(0, 0)})
			})
		})
	}
}

// A sealed store is a store like others, for operators too.
func TestSealedStoreInVirtualTime(t *testing.T) {
	sealer, err := idempotency.NewSealer(idempotency.SealKey{Name: "a", Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.run(&bench{TB: t, store: idempotency.Sealed(idempotency.NewMemoryStore(0, 0), sealer)})
			})
		})
	}
}

// careless is a store with a flaw: it reads, yields and writes without checking for another write,
// or it does not check the token.
type careless struct {
	idempotency.Store
	mu      sync.Mutex
	records map[idempotency.ID]idempotency.Record
	token   bool // ignores tokens
}

func (s *careless) load(id idempotency.ID) idempotency.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[id]
}

func (s *careless) save(id idempotency.ID, r idempotency.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[id] = r
}

func now() idempotency.Moment { return idempotency.Moment(time.Now().UnixNano()) }

func giveWay() { pause(20 * time.Microsecond) }

func (s *careless) Begin(_ context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	r := s.load(c.ID)
	a, changed := r.Begin(c, now())
	if changed {
		if !s.token {
			giveWay()
		}
		s.save(c.ID, a.Record)
	}
	return a, nil
}

func (s *careless) Apply(_ context.Context, ref idempotency.Ref, c idempotency.Change) error {
	r := s.load(ref.ID)
	if s.token {
		ref.Token = r.Token
	}
	next, changed, err := r.Apply(ref, c, now())
	if changed {
		if !s.token {
			giveWay()
		}
		s.save(ref.ID, next)
	}
	return err
}

// The check of histories is itself checked: stores that are wrong are found.
func TestFlawedStoresAreFound(t *testing.T) {
	for name, token := range map[string]bool{"without compare-and-set": false, "without tokens": true} {
		t.Run(name, func(t *testing.T) {
			for n := range 50 {
				store := &careless{records: map[idempotency.ID]idempotency.Record{}, token: token}
				for _, g := range []idempotency.Guarantee{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute} {
					if err := sound(record([]idempotency.Store{store}, fmt.Sprint(name, g), g, 6, 40), g); err != nil {
						t.Logf("found in history %d: %v", n, err)
						return
					}
				}
			}
			t.Error("50 histories of a flawed store were all sound")
		})
	}
}
