package scenario

import (
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

func (l *lowering) fleet(f *namedFleet) sim.Fleet {
	made := sim.Fleet{
		Name: f.name, Clients: int(f.Count), Loop: sim.Loop(f.Loop), Even: f.Even, Think: f.Think.Dist, Spread: time.Duration(f.Spread),
		Session: int(f.Session), Shared: int(f.Shared), Plan: sim.Plan{Steps: l.steps(f.calls), Deadline: time.Duration(f.Deadline)},
	}
	made.Queue, made.Shares, made.Greedy = l.queue(f), f.lowerShares(), float64(f.Greedy)
	for _, at := range f.Trace {
		made.At = append(made.At, time.Duration(at))
	}
	if f.Replay.At != nil {
		made.At, made.Met = f.Replay.At, f.Replay.met()
	}
	switch made.Loop {
	case sim.Open:
		made.Load = f.load(l.file.duration, l.by)
	case sim.Closed:
		made.Clients = max(int(float64(float64(made.Clients)*l.by.load)+0.5), 1)
	}
	return made
}

func (l *lowering) steps(calls []namedEdge) (steps []sim.Step) {
	for _, e := range calls {
		rules := l.rulesOf(e.Policy) // which learns who is keyed
		steps = append(steps, sim.Step{
			Fan: int(e.Fan), Quorum: int(e.Quorum), Chance: float64(e.Chance),
			Edge: sim.Edge{
				To: e.to, Rules: rules, Repeats: l.repeats[e.Policy], Network: e.Network.Dist, Loss: float64(e.Loss), Method: string(e.Method), Keyed: e.Keyed || l.keyed[e.Policy],
				Deadline: e.Propagate, Blunt: e.IgnoresHints, Priority: e.priority(), Cache: e.Cache.lower(), Conns: e.Connections.lower(), Uses: e.lowerUses(),
			},
		})
	}
	return steps
}

func (l *lowering) service(s *namedService) sim.Service {
	return sim.Service{
		Name: s.name, Replicas: int(s.Replicas), Balance: sim.Balance(s.Balance), Workers: int(s.Workers),
		Discipline: sim.Discipline(s.Order), Queue: int(s.Queue), Target: time.Duration(s.Target), Interval: time.Duration(s.Interval),
		DropExpired: s.DropExpired, Time: s.Time.Dist, ByCall: s.ByCall, Crowd: float64(s.Crowd), RefuseCost: float64(s.RefuseCost),
		Honours: s.HonoursKeys, Marks: s.StopsRetries, Limit: s.Limit.lower(), Quotas: s.Quotas.lower(), Pauses: sim.Pauses{Every: s.Pauses.Every.Dist, For: s.Pauses.For.Dist}, Admission: s.Admission.lower(),
		Plan: sim.Plan{Steps: l.steps(s.calls), Deadline: time.Duration(s.Deadline)},
	}
}

func (l *limit) lower() sim.Limit {
	return sim.Limit{Rate: float64(l.Rate), Burst: int(l.Burst), After: time.Duration(l.RetryAfter), Honest: l.Exact, PerCaller: l.PerCaller}
}

func (l *lowering) fault(f *namedFault) sim.Fault {
	made := sim.Fault{
		Kind: f.kind, Service: max(f.service, 0), Fleet: max(f.fleet, 0), At: time.Duration(f.At), For: l.by.length(&f.fault), Ramp: time.Duration(f.Ramp),
		Period: time.Duration(f.Every), Until: time.Duration(f.Until), Replicas: int(f.Replicas), Callers: int(f.Callers), Share: float64(f.Share), Factor: float64(f.Factor),
		Add: time.Duration(f.Add), Status: f.status(), Ways: f.ways(), After: time.Duration(f.RetryAfter), Late: f.AfterWork, Costs: f.CostsWork, Limit: f.Limit.lower(),
	}
	l.by.harden(&made)
	if made.Period > 0 && made.Until == 0 {
		made.Until = l.file.duration - made.For
	}
	if f.kind == sim.Reload {
		made.Rules, made.Repeats = l.rulesOf(f.Policy), l.repeats[f.Policy]
	}
	return made
}

func (f *namedFault) status() int {
	switch {
	case f.Status > 0:
		return int(f.Status)
	case f.AfterWork:
		return 500
	}
	return 503
}
