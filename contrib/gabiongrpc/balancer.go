package gabiongrpc

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
)

// The balancer round_robin is replaced by one that leaves out, for calls of a Client, the
// addresses that fail. Other calls get what round_robin picks.
func init() { balancer.Register(sparing{balancer.Get(roundrobin.Name)}) }

// sparing is a balancer's builder.
type sparing struct{ balancer.Builder }

// Build implements balancer.Builder.
func (s sparing) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	f := &fleet{ClientConn: cc, target: cc.Target(), known: map[string]*backend{}, conns: map[balancer.SubConn]*link{}} //nolint:staticcheck // it is what grpc.ClientConn.Target returns; that of the options is parsed
	return &overFleet{s.Builder.Build(f, opts), f}
}

// overFleet is the balancer as grpc-go sees it.
type overFleet struct {
	balancer.Balancer
	fleet *fleet
}

// UpdateClientConnState implements balancer.Balancer. What is known of addresses that are
// gone is forgotten.
func (o *overFleet) UpdateClientConnState(s balancer.ClientConnState) error {
	o.fleet.keep(s)
	return o.Balancer.UpdateClientConnState(s)
}

// fleet is what a balancer has its connections from: it notes where they lead.
type fleet struct {
	balancer.ClientConn
	target string

	mu    sync.Mutex
	known map[string]*backend // by address
	conns map[balancer.SubConn]*link

	rows unansweredRows
}

// link is a connection to a backend.
type link struct {
	to    *backend
	ready bool
}

// keep forgets the addresses that are not in s.
func (f *fleet) keep(s balancer.ClientConnState) {
	here := map[string]bool{}
	for _, e := range s.ResolverState.Endpoints {
		for _, a := range e.Addresses {
			here[a.Addr] = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.known, func(addr string, _ *backend) bool { return !here[addr] })
}

// NewSubConn implements balancer.ClientConn.
func (f *fleet) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	if len(addrs) != 1 {
		return f.ClientConn.NewSubConn(addrs, opts) //nolint:staticcheck // balancers call it
	}
	var conn balancer.SubConn
	tell := opts.StateListener
	opts.StateListener = func(s balancer.SubConnState) {
		f.moved(conn, s.ConnectivityState)
		if tell != nil {
			tell(s)
		}
	}
	conn, err := f.ClientConn.NewSubConn(addrs, opts) //nolint:staticcheck // balancers call it
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.known[addrs[0].Addr]
	if b == nil {
		b = &backend{addr: addrs[0].Addr}
		f.known[b.addr] = b
	}
	f.conns[conn] = &link{to: b}
	return conn, nil
}

func (f *fleet) moved(conn balancer.SubConn, to connectivity.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to == connectivity.Shutdown {
		delete(f.conns, conn)
	} else if l := f.conns[conn]; l != nil {
		l.ready = to == connectivity.Ready
	}
}

// UpdateState implements balancer.ClientConn.
func (f *fleet) UpdateState(s balancer.State) {
	if s.ConnectivityState == connectivity.Ready && s.Picker != nil {
		ready := map[balancer.SubConn]*backend{}
		f.mu.Lock()
		for conn, l := range f.conns {
			if l.ready {
				ready[conn] = l.to
			}
		}
		f.mu.Unlock()
		if len(ready) > 1 {
			s.Picker = &picker{s.Picker, f, ready}
		}
	}
	f.ClientConn.UpdateState(s)
}

// backend is one address, and what the dependencies that call it know of it.
type backend struct {
	addr string

	mu sync.RWMutex
	by []*knowing
}

type knowing struct {
	dependency *gabion.Dependency
	address    adapter.Address
	unanswered unanswered
}

// of returns what d knows of the address.
func (b *backend) of(d *gabion.Dependency) *knowing {
	is := func(k *knowing) bool { return k.dependency == d }
	b.mu.RLock()
	i := slices.IndexFunc(b.by, is)
	if i >= 0 {
		defer b.mu.RUnlock()
		return b.by[i]
	}
	b.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if i = slices.IndexFunc(b.by, is); i < 0 {
		i = len(b.by)
		b.by = append(b.by, &knowing{dependency: d, address: adapter.Of(d).NewAddress(b.addr)})
	}
	return b.by[i]
}

// picker picks for each attempt. What is ready never changes: another state has another picker.
type picker struct {
	balancer.Picker
	fleet *fleet
	ready map[balancer.SubConn]*backend
}

// Pick implements balancer.Picker. It picks an address that is not left out, and if there is
// one, none that an attempt of the same call was sent to. Where all are left out, none is.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	a, _ := info.Ctx.Value(attemptKey{}).(*attempt)
	if a == nil || !a.isFor(p.fleet.target, info.FullMethodName) || !a.visit.begin(p) {
		return p.Picker.Pick(info)
	}
	for i := range 2 * len(p.ready) {
		picked, err := p.Picker.Pick(info)
		if err != nil {
			return picked, err
		}
		b := p.ready[picked.SubConn]
		if b == nil || (i >= len(p.ready) || !a.of.wasAt(b)) && a.enter(b) {
			return picked, nil
		}
		if picked.Done != nil {
			picked.Done(balancer.DoneInfo{})
		}
	}
	a.of.client.spread.Add(1)
	return p.Picker.Pick(info)
}
