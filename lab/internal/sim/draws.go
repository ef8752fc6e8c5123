package sim

import (
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// Draws are the random numbers of a seed for a world: when clients call, how long work
// takes, which attempts a fault strikes. Code that plays the same world by other means
// than Run gets the same numbers from it.
type Draws struct {
	World *World
	Seed  uint64
}

// Arrival is a client's call in a fleet whose loop is open.
type Arrival struct {
	At     time.Duration
	Client int
	Call   uint64 // its name in the draws below: of the first call of the fleet's plan
}

// Arrivals returns the calls of an open fleet, in order.
func (d Draws) Arrivals(fleet int) (all []Arrival) {
	f := &d.World.Fleets[fleet]
	from := source{load: f.Load, even: f.Even, draws: draw.New(d.Seed, forArrivals, uint64(fleet))}
	picks := draw.New(d.Seed, forClients, uint64(fleet))
	for {
		at, ok := from.next(d.World.Duration)
		if !ok {
			return all
		}
		job := jobID(fleet, uint64(len(all)+1))
		all = append(all, Arrival{time.Duration(at), picks.N(max(f.Clients, 1)), callID(job, 0, 0)})
	}
}

// Work is how long the work for an attempt of a call takes, when nothing is wrong.
// Tries are counted from 1.
func (d Draws) Work(service int, call uint64, try int) time.Duration {
	return d.World.Services[service].takes(d.Seed, call, try)
}

// Strikes reports whether a fault, at its full size, strikes that attempt.
func (d Draws) Strikes(fault int, call uint64, try int) bool {
	share := d.World.Faults[fault].Share
	if share <= 0 {
		share = 1
	}
	return struck(d.Seed, fault, call, try, share)
}

// PolicySeed names the draws of the policy that an instance of a caller has for an
// edge. Instances of fleets are clients, or who shares a state.
func (d Draws) PolicySeed(edge, instance int) uint64 { return policySeed(d.Seed, edge, instance) }

// The names of what draws are for.

// fleetShift is where the number of the fleet begins in a job's name.
const fleetShift = 40

func jobID(fleet int, made uint64) uint64 { return uint64(fleet+1)<<fleetShift | made }

// ownID is the name of a client's n-th job where each client's are counted for
// themselves. It may be any number: that two are alike is as good as impossible.
func ownID(fleet int, client, n uint32) uint64 {
	d := draw.New(uint64(fleet), forClients, uint64(client)<<32|uint64(n))
	return d.Bits()
}

func callID(job uint64, step int, k uint64) uint64 {
	return job*0x9e3779b97f4a7c15 + uint64(step)<<16 + k + 1
}

func attemptID(call uint64, try int) uint64 { return call<<6 + uint64(try) }

func policySeed(seed uint64, edge, instance int) uint64 {
	d := draw.New(seed, forPolicy, uint64(edge)<<40|uint64(instance))
	return d.Bits()
}

// takes draws how long the work for an attempt takes.
func (v *Service) takes(seed, call uint64, try int) time.Duration {
	name := attemptID(call, try)
	if v.ByCall {
		name = attemptID(call, 0)
	}
	d := draw.New(seed, forService, name)
	return v.Time.Draw(&d)
}

// struck draws whether a fault that is for a share of attempts strikes one.
func struck(seed uint64, fault int, call uint64, try int, share float64) bool {
	if share >= 1 {
		return true
	}
	d := draw.New(seed, forFaults, uint64(fault)<<56^attemptID(call, try))
	return d.Yes(share)
}
