// Package fleetview puts together what the members of a fleet report, for gabion fleet status and gabion page.
package fleetview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/fleetlook"
)

// A Sum is a fleet as one.
type Sum struct {
	Members      int // without those that have left
	Kinds        []Kind
	Dependencies []Dependency
	Limits       []Limit
	Lost         []string // members that could not reach the store before their last report
	Silent       []string // members whose shares have ended
	InForce      []fleet.Override
}

// A Kind is the members that run the same version under the same policies. More than one means that a
// roll-out goes on, or is stuck.
type Kind struct {
	Version, Policies string
	Members           []string
}

// A Dependency is the sum of what the members report of it, each since its process began.
type Dependency struct {
	Name                  string
	Members               int
	Calls, Failed, Unsent int64
	P99                   time.Duration // of the median member
	Open                  []string      // members with a breaker that is open
	Outliers              []string      // what is odd about which member
	failed                []share       // by member
	slow                  []lasting
}

type share struct {
	member string
	part   float64
}

type lasting struct {
	member string
	p99    time.Duration
}

// A Limit is one that the members share.
type Limit struct {
	Dependency, Name    string
	Whole, Held, Wanted float64
	Members             int
}

// Of puts a view together.
func Of(v *fleetlook.View) *Sum {
	s := &Sum{}
	kinds, deps, limits := map[[2]string]*Kind{}, map[string]*Dependency{}, map[[2]string]*Limit{}
	for i := range v.Members {
		m := &v.Members[i]
		if m.Left {
			continue
		}
		s.Members++
		kind := at(kinds, [2]string{m.Version, m.Policies})
		kind.Version, kind.Policies, kind.Members = m.Version, m.Policies, append(kind.Members, m.ID)
		if m.Lost {
			s.Lost = append(s.Lost, m.ID)
		}
		if m.Until.Before(v.Now) && len(m.Shares) > 0 {
			s.Silent = append(s.Silent, m.ID)
		}
		for j := range m.Dependencies {
			d := &m.Dependencies[j]
			at(deps, d.Name).add(m.ID, d)
		}
		for _, one := range m.Shares {
			l := at(limits, [2]string{one.Dependency, one.Limit})
			l.Dependency, l.Name, l.Members = one.Dependency, one.Limit, l.Members+1
			l.Whole = max(l.Whole, one.Of)
			if !m.Until.Before(v.Now) {
				l.Held += one.Amount
			}
			l.Wanted += one.Wants
		}
	}
	s.Kinds, s.Dependencies, s.Limits = values(kinds), values(deps), values(limits)
	slices.SortFunc(s.Kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(len(b.Members), len(a.Members)), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Policies, b.Policies))
	})
	slices.SortFunc(s.Dependencies, func(a, b Dependency) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Limits, func(a, b Limit) int {
		return cmp.Or(cmp.Compare(a.Dependency, b.Dependency), cmp.Compare(a.Name, b.Name))
	})
	for i := range s.Dependencies {
		s.Dependencies[i].judge()
	}
	for i := range v.Overrides {
		if v.Overrides[i].Active(v.Now) {
			s.InForce = append(s.InForce, v.Overrides[i])
		}
	}
	return s
}

func at[K comparable, V any](all map[K]*V, key K) *V {
	if all[key] == nil {
		all[key] = new(V)
	}
	return all[key]
}

func values[K comparable, V any](all map[K]*V) (list []V) {
	for v := range maps.Values(all) {
		list = append(list, *v)
	}
	return list
}

// fewCalls is how many calls a member must have made before it is compared with others.
const fewCalls = 20

func (d *Dependency) add(member string, v *fleetlook.Dependency) {
	failed := max(0, v.Calls-v.Succeeded-v.Unsent)
	d.Name, d.Members = v.Name, d.Members+1
	d.Calls, d.Failed, d.Unsent = d.Calls+v.Calls, d.Failed+failed, d.Unsent+v.Unsent
	if len(v.Open) > 0 {
		d.Open = append(d.Open, member)
	}
	if sent := v.Calls - v.Unsent; sent >= fewCalls {
		d.failed = append(d.failed, share{member, float64(failed) / float64(sent)})
		d.slow = append(d.slow, lasting{member, v.P99})
	}
}

// judge finds the members that are unlike the others: one that fails three times as often as the median member, and in
// a tenth of its calls more, or that is five times as slow, and by 5 ms. Of two members neither is the odd one.
func (d *Dependency) judge() {
	slices.SortFunc(d.slow, func(a, b lasting) int { return cmp.Compare(a.p99, b.p99) })
	slices.SortFunc(d.failed, func(a, b share) int { return cmp.Compare(a.part, b.part) })
	n := len(d.failed)
	if n == 0 {
		return
	}
	d.P99 = d.slow[(n-1)/2].p99
	if n < 3 {
		return
	}
	median := d.failed[(n-1)/2].part
	for _, one := range d.failed {
		if one.part > 3*median && one.part > median+0.1 {
			d.Outliers = append(d.Outliers, fmt.Sprintf("%s: %.0f %% of its calls fail, and %.0f %% of the median member's", one.member, one.part*100, median*100))
		}
	}
	for _, one := range d.slow {
		if one.p99 > 5*d.P99 && one.p99 > d.P99+5*time.Millisecond {
			d.Outliers = append(d.Outliers, fmt.Sprintf("%s: a call takes %v, and %v the median member's (p99)", one.member, Rounded(one.p99), Rounded(d.P99)))
		}
	}
}

// Time is the p99 as it is shown. A dash says that no member has made enough calls.
func (d *Dependency) Time() string {
	if len(d.slow) == 0 { // see fewCalls
		return "-"
	}
	return Rounded(d.P99).String()
}

// Number is a number of a limit in four digits, or with all digits before the point.
func Number(x float64) string {
	if x >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// Rounded is a duration of three digits or so.
func Rounded(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
