package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// kinds; those with an exclamation mark it needs.
var keysOf = [...]string{
	"service! replicas callers share ramp every until",
	"service! replicas callers share ramp every until",
	"service! replicas callers share ramp every until costs_work",
	"service! replicas ramp every until factor!",
	"service! replicas callers share ramp every until factor add",
	"service! replicas callers share ramp every until status answers retry_after after_work costs_work",
	"service! replicas callers share ramp every until",
	"service! every until limit!",
	"service! replicas ramp every until",
	"clients! replicas every until",
	"service! every until add!",
	"clients! every until policy!",
	"service! replicas callers share ramp every until",
	"service! replicas callers share ramp every until add!",
	"service! share every until",
	"clients! every until",
}

func (r *reader) fault(node yamlstrict.Node) {
	var f namedFault
	it := r.decode(fmt.Sprintf("fault %d", len(r.file.faults)+1), node, &f.fault)
	it.need("kind", "write one of "+strings.Join(kinds, ", "))
	it.need("at", "write when it begins")
	if f.Kind == 0 {
		r.file.faults = append(r.file.faults, f)
		return
	}
	f.kind = sim.Kind(f.Kind - 1)
	lasts := lasts(f.kind)
	if lasts {
		it.need("for", "write how long it lasts")
	} else if f.For > 0 {
		it.never("for what happens at once", "for")
	}
	it.fits(f.kind)
	if !r.plan {
		f.service, f.fleet = r.serviceNamed(it, "service", f.Service), r.fleetNamed(it, f.Clients)
	}
	r.sizes(it, &f)
	if lasts {
		r.again(it, time.Duration(f.At), time.Duration(f.For), time.Duration(f.Every), time.Duration(f.Until))
	}
	if end := time.Duration(f.At) + time.Duration(f.For); end > r.file.duration && r.file.duration > 0 {
		it.fail("at", fmt.Sprintf("it ends at %s, after the %s", end, r.whole()), "write it earlier, or make the duration longer")
	}
	r.file.faults = append(r.file.faults, f)
}

// lasts reports whether a kind of fault goes on for a while.
func lasts(kind sim.Kind) bool { return kind != sim.ClientRestart && kind != sim.Reload }

// faultKeys returns the keys that a kind of fault may have, and those that it needs.
func faultKeys(kind sim.Kind) (all, needed []string) {
	all = []string{"kind", "at"}
	if lasts(kind) {
		all = append(all, "for")
	}
	needed = slices.Clone(all)
	for _, key := range strings.Fields(keysOf[kind]) {
		key, must := strings.CutSuffix(key, "!")
		all = append(all, key)
		if must {
			needed = append(needed, key)
		}
	}
	return all, needed
}

// fits checks that a fault has the keys of its kind and no others.
func (it item) fits(of sim.Kind) {
	kind := kinds[of]
	allowed, needed := faultKeys(of)
	if it.r.plan {
		if slices.Contains(allowed, "clients") {
			it.fail("kind", kind+" is of clients, and a plan has none", "write it into the scenario")
			return
		}
		if of == sim.CacheDown {
			it.fail("kind", kind+" is of those who call, and a plan has none", "write it into the scenario")
			return
		}
		it.never("in a plan, which is of one service", "service", "callers")
		allowed = append(allowed, "service", "callers") // said
		needed = slices.DeleteFunc(needed, func(key string) bool { return key == "service" })
	}
	for _, key := range needed {
		if !slices.Contains([]string{"kind", "at", "for"}, key) { // said already
			it.need(key, kind+" needs it")
		}
	}
	allowed = append(allowed, "for")
	for _, key := range []string{"ramp", "every", "until", "service", "clients", "replicas", "callers", "share", "factor", "add", "status", "answers", "retry_after", "after_work", "costs_work", "limit", "policy"} {
		if !slices.Contains(allowed, key) {
			it.never("for "+kind, key)
		}
	}
}

// sizes checks how large a fault is.
func (r *reader) sizes(it item, f *namedFault) {
	if f.service >= 0 && f.service < len(r.file.services) && it.has("service") {
		if has := max(r.file.services[f.service].Replicas, 1); f.Replicas > has {
			it.fail("replicas", fmt.Sprintf("%s has %d replicas, not %d", f.Service, has, f.Replicas), "write at most as many")
		}
	}
	if f.kind == sim.ClientRestart && f.fleet >= 0 && it.has("clients") {
		it.restarts(f, &r.file.fleets[f.fleet])
	}
	if f.kind == sim.StoreDown && f.fleet >= 0 && it.has("clients") && !r.file.fleets[f.fleet].shares {
		it.fail("kind", "store_down means nothing for "+f.Clients+", which shares nothing over a store", "write store: {network: exp 1ms} at "+f.Clients)
	}
	it.limit(&f.Limit)
	it.answers(&f.fault)
	switch {
	case f.Status != 0 && !sim.MayAnswer(int(f.Status)):
		it.fail("status", fmt.Sprintf("status %d is not known", f.Status), "write one from 400 to 599, such as 503")
	case f.Status != 0 && !sim.NamesTime(int(f.Status)) && f.RetryAfter > 0:
		it.fail("retry_after", fmt.Sprintf("a %d names no time to come again", f.Status), "write status: 503, or remove it")
	case f.CostsWork && f.kind == sim.Errors && (f.AfterWork || f.Status == 500):
		it.fail("costs_work", "such an error costs the work anyway", "remove it")
	case f.kind == sim.BrownOut && f.Factor >= 1:
		it.fail("factor", "a brown-out leaves less than all", "write one below 1, such as 0.5")
	case f.kind == sim.Slow && !it.has("factor") && !it.has("add"):
		it.fail("factor", "it does not say how slow", "write factor: 3, or add: 100ms")
	case f.kind == sim.Slow && it.has("factor") && f.Factor <= 1:
		it.fail("factor", "slow work takes longer than before", "write one above 1, such as 3")
	case f.kind != sim.Restart && 2*f.Ramp > f.For && f.For > 0:
		it.fail("ramp", "growing and falling take longer than it lasts", "write at most half of for")
	}
}

func (r *reader) fleetNamed(it item, name string) int {
	names := make([]string, len(r.file.fleets))
	for i, f := range r.file.fleets {
		names[i] = f.name
	}
	i := slices.Index(names, name)
	if i < 0 && it.has("clients") {
		it.fail("clients", fmt.Sprintf("there are no clients %.60q", name), oneOf(name, names))
	}
	return i
}
