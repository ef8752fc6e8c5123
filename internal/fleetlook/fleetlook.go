// Package fleetlook reads all that a store has of a fleet, for gabion fleet and its page.
package fleetlook

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	gabionfleet "github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/fleet"
)

// View is a fleet as its store has it.
type View struct {
	// Now is the time of the store's clock, as are all others of a View.
	Now time.Time

	// Divided is when shares were last divided. Zero means never.
	Divided time.Time

	// Members are the processes, by ID, those included whose report has not run out yet.
	Members []Member

	// Overrides are those that are in force and those that are kept for the audit, the oldest first.
	Overrides []gabionfleet.Override

	// Unread says what could not be read, such as records of a newer release.
	Unread []string
}

// Member is a process as its last report has it.
type Member struct {
	ID       string
	Version  string    // of the program, if it says one
	Policies string    // a hash of its policies: equal ones are equal
	Reported time.Time // zero if that is not known
	Left     bool      // it gave its shares back and has gone
	Lost     bool      // it could not reach the store before this report
	Until    time.Time // when its shares end; zero if it has none

	Dependencies []Dependency // by name
	Shares       []gabionfleet.Share
}

// Dependency is a dependency as one process sees it, since that process began.
type Dependency struct {
	Name      string
	Calls     int64 // that have ended
	Succeeded int64
	Unsent    int64 // that were refused, or given up while they waited
	P99       time.Duration
	Open      []string // partitions whose breaker is open; "" is that of calls without one
}

// Look reads all that a store has of a fleet.
func Look(ctx context.Context, s gabionfleet.Store, name string) (*View, error) {
	w := &whole{store: s, name: name}
	all, _, err := gabionfleet.Overrides(ctx, w, name)
	if !w.answered {
		return nil, err
	}
	r := &w.result
	v := &View{Now: r.Now, Overrides: all}
	if err != nil {
		v.unread("overrides", err)
	}
	var pool *fleet.Pool
	if item, found := r.Items[fleet.PoolKey(name)]; found {
		if pool, err = fleet.ParsePool(item.Value); err != nil {
			v.unread("shares", err)
		} else {
			v.Divided = time.UnixMicro(pool.At)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Items)) {
		id, isPod := strings.CutPrefix(key, fleet.PodsKey(name))
		if !isPod {
			continue
		}
		report, err := fleet.ParseReport(r.Items[key].Value)
		if err == nil && report.ID != id {
			err = errors.New("it is in another process's name")
		}
		if err != nil {
			v.unread(id, err)
			continue
		}
		v.Members = append(v.Members, memberView(report, pool))
	}
	return v, nil
}

func (v *View) unread(what string, err error) { v.Unread = append(v.Unread, what+": "+err.Error()) }

func memberView(r *fleet.Report, pool *fleet.Pool) Member {
	p, _ := fleet.FactsIn[fleet.ProcessFacts](r, fleet.Process)
	m := Member{ID: r.ID, Version: p.Version, Policies: p.Policies, Left: r.Leaves, Lost: p.Lost}
	if p.At > 0 {
		m.Reported = time.UnixMilli(p.At)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Facts)) {
		f, ok := fleet.FactsIn[fleet.DependencyFacts](r, name)
		if !ok || name == fleet.Process || len(m.Dependencies) == fleet.MaxResources {
			continue
		}
		// A report may be wrong: what is added up is no more than what a process can have counted.
		m.Dependencies = append(m.Dependencies, Dependency{
			Name: name, Calls: counted(f.Calls), Succeeded: counted(f.Succeeded), Unsent: counted(f.Refused), Open: f.Open,
			P99: time.Duration(min(max(f.P99, 0), int64(time.Hour/time.Microsecond))) * time.Microsecond,
		})
	}
	pod := pool.Pod(r.ID)
	if pod != nil && pod.Until > 0 {
		m.Until = pool.End(pod)
	}
	for i := range r.Demands {
		d := &r.Demands[i]
		dependency, limit := fleet.DependencyOf(d.Resource)
		one := gabionfleet.Share{Dependency: dependency, Limit: limit, Of: d.Total, Wants: d.Want}
		if pod != nil {
			at := slices.IndexFunc(pool.Resources, func(res fleet.Resource) bool { return res.Name == d.Resource })
			if at >= 0 {
				one.Amount = pod.Share(at)
			}
		}
		m.Shares = append(m.Shares, one)
	}
	return m
}

// counted is a count that makes sense.
func counted(n int64) int64 { return min(max(n, 0), 1<<50) }

// whole asks a store for the whole fleet where its overrides are asked for: one request is of one moment.
type whole struct {
	store    gabionfleet.Store
	name     string
	result   gabionfleet.Result
	answered bool
}

func (w *whole) Do(ctx context.Context, b gabionfleet.Batch) (gabionfleet.Result, error) {
	b.Get, b.List = append(b.Get, fleet.PoolKey(w.name)), fleet.PodsKey(w.name)
	r, err := w.store.Do(ctx, b)
	w.result, w.answered = r, err == nil
	return r, err
}
