package scenario

import (
	"cmp"
	"slices"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// shortestLease is that of package fleet.
const shortestLease = time.Second

// sharing checks what the clients of a fleet share, and which of them wants most.
func (it item) sharing(f *namedFleet) {
	if it.has("greedy") && f.Count < 2 {
		it.fail("greedy", "greedy means nothing for one client", "write count: 50")
	}
	if f.Loop == loopWord(sim.Closed) {
		it.never("in a closed loop", "greedy")
	}
	if f.queued {
		it.never("for consumers, which take what comes next", "greedy")
	}
	if f.shares = it.has("store"); !f.shares {
		return
	}
	if !it.has("store.network") {
		it.fail("store", "store.network is missing", "write store: {network: exp 1ms}")
	}
	if lease := time.Duration(f.Store.Lease); lease > 0 && lease < shortestLease {
		it.fail("store.lease", "a fleet has no lease of less than a second", "write lease: 10s")
	}
	if f.queued {
		it.never("for consumers, which share nothing in the lab", "store")
	}
}

// shared refuses a store over which nothing would go by the file's policies.
func (it item) shared(f *namedFleet) {
	if f.shares && !slices.ContainsFunc(f.calls, func(e namedEdge) bool { return shares(it.r.file.policies.Policies[e.Policy]) }) {
		it.fail("store", "store means nothing while no policy of its calls shares a limit or has a breaker", "write fleet: {rate: true} in a policy")
	}
}

// shares reports whether a policy has something to share, or a breaker whose state others want to know.
func shares(p policy.Policy) bool {
	f := p.Fleet
	return f.Rate || f.Slots || f.Quotas || f.Budget || !p.Breaker.Off
}

// lowerShares is what the clients share over a store; nil without one.
func (f *namedFleet) lowerShares() *sim.Shares {
	if !f.shares {
		return nil
	}
	made := &sim.Shares{Lease: time.Duration(f.Store.Lease), Network: f.Store.Network.Dist}
	made.Lease = cmp.Or(made.Lease, 10*time.Second)
	return made
}
