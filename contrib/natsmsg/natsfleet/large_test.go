package natsfleet

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// A reader is the store of one member, and notes which parts of the pool it read.
type reader struct {
	fleet.Store
	mu   sync.Mutex // guards what follows
	read map[string]bool
}

func (r *reader) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	a, err := r.Store.Do(ctx, b)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range b.Get {
		if _, is := a.Items[key]; is && strings.Contains(key, "/part/") {
			r.read[key] = true
		}
	}
	return a, err
}

func (r *reader) parts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.read)
}

// More than 64 members read the pool in parts: each reads its own, and all have a share.
func TestALargeFleetReadsItsParts(t *testing.T) {
	const members, conns = 70, 4
	server := testservers.StartOwnNATS(t)
	var stores [conns]*Store
	for i := range stores {
		stores[i] = mustOpen(t, testnats.Connect(t, server.DSN), Options{})
	}
	share := policy.Policy{RateLimit: policy.RateLimit{Rate: 1000, Burst: 10}, Fleet: policy.Fleet{Rate: true}}
	var all [members]*fleet.Member
	var readers [members]*reader
	var joining sync.WaitGroup
	defer func() {
		for _, m := range all {
			if m != nil {
				joining.Go(m.Close)
			}
		}
		joining.Wait()
	}()
	for n := range all {
		readers[n] = &reader{Store: stores[n%conns], read: map[string]bool{}}
		joining.Go(func() {
			r, err := gabion.NewRegistry(map[string]policy.Policy{"payments": share})
			if err == nil {
				all[n], err = fleet.Join(t.Context(), r, readers[n], fleet.Options{ID: fmt.Sprint("m", n), Logger: slog.New(slog.DiscardHandler)})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	if joining.Wait(); t.Failed() {
		return
	}
	wants := func() string {
		for n, m := range all {
			if st := m.Status(); st.Lost || len(st.Shares) != 1 || st.Shares[0].Amount <= 0 || readers[n].parts() != 1 {
				return fmt.Sprintf("member %d has read %d parts, and has %+v", n, readers[n].parts(), st)
			}
		}
		return ""
	}
	for limit := time.Now().Add(patience); wants() != ""; <-time.After(50 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal(wants())
		}
	}
	r, err := stores[0].Do(t.Context(), fleet.Batch{List: "gabion/part/"})
	if err != nil || len(r.Items) != 4 {
		t.Errorf("%d parts are there, want 4 (%v)", len(r.Items), err)
	}
}
