package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/policy"
)

// In a storm of 80 % failures the page says what the server and the callers have counted
// themselves.
func TestPageAgreesWithTheServer(t *testing.T) {
	t.Parallel()
	p := newProgram(t, map[string]policy.Policy{"bank": {Retry: quick, Breaker: noBreaker, Hedge: policy.Hedge{Max: 1, Delay: 5 * time.Millisecond}}}, dashboard.Config{})
	var n, bad atomic.Int64
	p.servers["bank"].do(func(w http.ResponseWriter, _ *http.Request) {
		i := n.Add(1)
		if i%5 != 0 {
			bad.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		} else if i%3 == 0 {
			pass(7 * time.Millisecond) // so that some are hedged
		}
	})
	c := p.client("bank")
	var answered, failed atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 50 {
				resp, err := c.Get(p.servers["bank"].URL)
				if err == nil {
					resp.Body.Close()
				}
				if err == nil && resp.StatusCode == http.StatusOK {
					answered.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	var state struct {
		Tiles []struct {
			Calls, Attempts, Hedges int64
			Amplification           float64
			Outcomes                map[string]int64
			Errors                  []struct {
				Code  string
				Count int64
			}
		}
	}
	resp, err := http.Get(p.url + "api/v1/state")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&state); err != nil {
		t.Fatal(err)
	}
	tile := state.Tiles[0]
	if tile.Calls != answered.Load()+failed.Load() || tile.Attempts < n.Load() {
		t.Errorf("the page has %d calls and %d attempts, the callers made %d, the server got %d", tile.Calls, tile.Attempts, answered.Load()+failed.Load(), n.Load())
	}
	// Of two attempts that race one is given up: before it arrived, or before its answer did.
	if never := tile.Attempts - n.Load(); never > tile.Hedges {
		t.Errorf("%d attempts of %d never arrived, and there were %d hedges", never, tile.Attempts, tile.Hedges)
	}
	if o := tile.Outcomes; o["first"]+o["rescued"] != answered.Load() || o["failed"]+o["refused"] != failed.Load() {
		t.Errorf("the page has %v, the callers %d answers and %d failures", o, answered.Load(), failed.Load())
	}
	seen := int64(0)
	for _, e := range tile.Errors {
		if e.Code == fmt.Sprint(http.StatusServiceUnavailable) {
			seen += e.Count
		}
	}
	if seen > bad.Load() || seen < bad.Load()-tile.Hedges {
		t.Errorf("the page has %d times 503, the server answered it %d times, and there were %d hedges", seen, bad.Load(), tile.Hedges)
	}
}
