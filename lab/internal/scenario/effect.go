package scenario

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// effects refuses what can be read and would change nothing: its author would believe that it was
// tried. It is for a document that has no other mistakes.
func (r *reader) effects(d *document) {
	asked := make([]float64, len(r.file.services))
	for _, c := range r.file.fleets {
		for i, n := range r.file.visits(c.calls) {
			asked[i] += n
		}
	}
	for i := range r.file.services {
		v := &r.file.services[i]
		it := r.decode(v.name, d.Services[v.name], new(service))
		if asked[i] == 0 && len(callsTo(r.file, i)) == 0 {
			r.fail(it.first, "nothing calls "+v.name, "add it to the calls of a fleet or of a service, or remove it")
			continue
		}
		r.served(it, i)
	}
	r.metered()
	for i := range r.file.fleets {
		f := &r.file.fleets[i]
		r.decode(f.name, d.Clients[f.name], new(fleet)).shared(f)
	}
	for i, node := range d.Faults {
		r.strikes(r.decode(fmt.Sprintf("fault %d", i+1), node, new(fault)), &r.file.faults[i])
	}
	r.unused("policies", d.Policies)
	if r.file.rival == "" {
		r.unused("against", d.Against)
	}
}

// served checks what a service does for the calls that are made of it.
func (r *reader) served(it item, service int) {
	v := &r.file.services[service]
	calls := callsTo(r.file, service)
	if v.DropExpired && !slices.ContainsFunc(calls, func(e namedEdge) bool { return e.Propagate }) {
		it.fail("drop_expired", "drop_expired means nothing while no call of it sends its deadline along", "write propagate: true at a call")
	}
	if v.HonoursKeys && !slices.ContainsFunc(calls, r.hasKey) {
		it.fail("honours_keys", "honours_keys means nothing while no call of it has a key", "write keyed: true at a call, or key: made in its policy")
	}
	if v.Time.text == "" && r.file.replayed(service) == 0 {
		it.never("for work that takes no time", "by_call", "crowd", "refuse_cost")
	}
}

// hasKey reports whether a call has a key: its caller's, or one that the file's policy
// has made.
func (r *reader) hasKey(e namedEdge) bool {
	return e.Keyed || r.file.policies.Policies[e.Policy].Key == policy.KeyMade
}

// strikes checks that a fault does something to the service that it is at.
func (r *reader) strikes(it item, f *namedFault) {
	if f.service < 0 {
		return
	}
	v := &r.file.services[f.service]
	switch {
	case f.kind == sim.Skew && !r.plan && !slices.ContainsFunc(callsTo(r.file, f.service), func(e namedEdge) bool { return e.Propagate }):
		it.fail("kind", "clock_skew means nothing while no call of "+v.name+" sends its deadline along", "write propagate: true at a call")
	case f.kind == sim.CacheDown && !slices.ContainsFunc(callsTo(r.file, f.service), namedEdge.cached):
		it.fail("kind", "cache_down means nothing while no call of "+v.name+" has a cache", "write cache: {keys: 10000} at a call")
	case f.Callers > 0 && !r.plan && int(f.Callers) >= mostCallers(r.file, f.service):
		it.fail("callers", fmt.Sprintf("no %d clients that are alike call %s, so all of them have it", f.Callers+1, v.name), "write less, or leave callers out")
	case v.Time.text == "" && r.file.replayed(f.service) == 0 && (f.kind == sim.BrownOut || f.kind == sim.Slow && f.Add == 0):
		it.fail("kind", kinds[f.kind]+" means nothing for "+v.name+", whose work takes no time", "write how long its work takes")
	}
}

// mostCallers is the clients of the largest fleet, or replicas of a service, that call a service.
func mostCallers(f *File, service int) (most int) {
	of := func(calls []namedEdge, count whole) {
		if slices.ContainsFunc(calls, func(e namedEdge) bool {
			return e.to == service || f.policies != nil && endpointOf(f.policies.Policies[e.Policy], f.services[service].name)
		}) {
			most = max(most, int(count), 1)
		}
	}
	for i := range f.fleets {
		of(f.fleets[i].calls, f.fleets[i].Count)
	}
	for i := range f.services {
		of(f.services[i].calls, f.services[i].Replicas)
	}
	return most
}

// callsTo returns all calls of a service.
func callsTo(f *File, service int) (calls []namedEdge) {
	for _, e := range allCalls(f) {
		if e.to == service || service < len(f.services) && f.policies != nil && endpointOf(f.policies.Policies[e.Policy], f.services[service].name) {
			calls = append(calls, e)
		}
	}
	return calls
}

// endpointOf reports whether a service is an endpoint of a policy.
func endpointOf(p policy.Policy, service string) bool {
	return slices.ContainsFunc(p.Endpoints.List, func(e policy.Endpoint) bool { return e.Name == service })
}

func allCalls(f *File) (calls []namedEdge) {
	for _, c := range f.fleets {
		calls = append(calls, c.calls...)
	}
	for _, v := range f.services {
		calls = append(calls, v.calls...)
	}
	return calls
}

// unused refuses policies by which nothing goes: a name that is misspelled would
// leave another one in force.
func (r *reader) unused(section string, node yamlstrict.Node) {
	used := map[string]bool{}
	for _, e := range allCalls(r.file) {
		used[e.Policy] = true
	}
	for _, f := range r.file.faults {
		used[f.Policy] = true
	}
	for i := range r.file.fleets {
		used[r.file.fleets[i].consumes()] = true
	}
	var named map[string]yamlstrict.Node
	_, _ = node.Decode(&named) // the reader of policies has said what is wrong with it
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !used[name] {
			names := slices.Sorted(maps.Keys(used))
			r.fail(named[name].Key, fmt.Sprintf("%s: nothing goes by the policy %.60q", section, name), oneOf(name, slices.DeleteFunc(names, func(s string) bool { return s == "" })))
		}
	}
}
