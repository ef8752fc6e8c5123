package gabionproxy

import (
	"net/http"
	"sync/atomic"

	"github.com/gabion-go/gabion/idempotency"
)

// stored is a store that is open, by the name that a configuration has for it.
type stored struct {
	idempotency.Store
	uses   atomic.Int64 // requests, and one for the configuration in force; at zero it is over for good
	unused func()       // called at zero
}

// enter reports whether the store may be used until it is left.
func (s *stored) enter() bool {
	for {
		n := s.uses.Load()
		if n == 0 {
			return false
		}
		if s.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *stored) leave() {
	if s.uses.Add(-1) == 0 {
		s.unused()
	}
}

// stored returns the store of that name, which is opened unless this configuration or the one before has it. A dry run gets one in memory
// in its place, since opening makes files and tables, and takes locks.
func (p *Proxy) stored(t, before *tree, name string) (*stored, error) {
	if s := t.stores[name]; s != nil {
		return s, nil
	}
	if before != nil && before.stores[name] != nil {
		t.stores[name] = before.stores[name]
		return t.stores[name], nil
	}
	s := &stored{unused: func() { go closeStore(p, name) }}
	s.uses.Store(1)
	switch {
	case !t.dry:
		var err error
		if s.Store, err = p.options.Store(name); err != nil {
			return nil, sealed(name, err)
		}
	default:
		if p.options.CheckStore != nil {
			if err := p.options.CheckStore(name); err != nil {
				return nil, sealed(name, err)
			}
		}
		s.Store = idempotency.NewMemoryStore(1, 1<<20)
	}
	t.stores[name] = s
	return s, nil
}

// closeStore closes a store that was left, unless a configuration names it again by now.
func closeStore(p *Proxy, name string) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.options.CloseStore != nil && p.inForce.Load().stores[name] == nil {
		p.options.CloseStore(name)
	}
}

// without lets go of the stores that another configuration does not have.
func (t *tree) without(other *tree) {
	for name, s := range t.stores {
		if other.stores[name] != s && !t.dry {
			s.leave()
		}
	}
}

// during serves requests for as long as the store is open.
func (s *stored) during(p *Proxy, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() { // it came under a configuration that ended before it got here
			w.Header().Set("Retry-After", "1")
			p.refuse(w, r, &refusal{status: http.StatusServiceUnavailable, reason: "store_closed", title: "The keys of this route moved to another store",
				detail: "send the request again", unsent: true})
			return
		}
		defer s.leave()
		next.ServeHTTP(w, r)
	})
}
