package m11

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

type depCheck struct {
	name string
	ping func(context.Context) error
}

type probes struct {
	deps     []depCheck
	draining atomic.Bool
	beat     atomic.Int64 // unix seconds, set by the work loop
}

func newProbes(db *sql.DB, redisPing func(context.Context) error) *probes {
	p := &probes{deps: []depCheck{{"postgres", db.PingContext}, {"redis", redisPing}}}
	p.beat.Store(time.Now().Unix())
	return p
}

// Mount: the kubelet restarts the container when /livez fails three times.
func (p *probes) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /readyz", p.ready)
	// WRONG: liveness depends on the database and on Redis; a failover of 30 seconds makes the kubelet kill every pod at once, and all come up cold
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		if down := p.check(r.Context()); len(down) > 0 {
			writeProbe(w, http.StatusServiceUnavailable, down)
			return
		}
		writeProbe(w, http.StatusOK, nil)
	})
}

// RIGHT
func (p *probes) MountLocal(mux *http.ServeMux) {
	mux.HandleFunc("GET /readyz", p.ready)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		if time.Since(time.Unix(p.beat.Load(), 0)) > 2*time.Minute {
			writeProbe(w, http.StatusServiceUnavailable, map[string]string{"loop": "stuck"})
			return
		}
		writeProbe(w, http.StatusOK, nil)
	})
	mux.HandleFunc("GET /debug/deps", func(w http.ResponseWriter, r *http.Request) {
		writeProbe(w, http.StatusOK, p.check(r.Context())) // for dashboards, never fails
	})
}

func (p *probes) ready(w http.ResponseWriter, _ *http.Request) {
	if p.draining.Load() {
		writeProbe(w, http.StatusServiceUnavailable, map[string]string{"state": "draining"})
		return
	}
	writeProbe(w, http.StatusOK, nil)
}

func (p *probes) check(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	down := map[string]string{}
	for _, d := range p.deps {
		wg.Go(func() {
			if err := d.ping(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				down[d.name] = err.Error()
			}
		})
	}
	wg.Wait()
	return down
}

func writeProbe(w http.ResponseWriter, code int, down map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"down": down})
}
