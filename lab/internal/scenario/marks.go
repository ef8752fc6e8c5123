package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// marks are what goes wrong, for people.
func (f *File) marks() (marks []Mark) {
	for i := range f.faults {
		x := &f.faults[i]
		of := x.Service + x.Clients
		last := lastOf(time.Duration(x.At), time.Duration(x.For), time.Duration(x.Every), time.Duration(x.Until), f.duration)
		for at := time.Duration(x.At); at <= last && len(marks) < 1000; at += max(time.Duration(x.Every), 1) {
			marks = append(marks, Mark{seconds(at), seconds(at + time.Duration(x.For)), kinds[x.kind], of, x.text(of)})
			if x.Every == 0 {
				break
			}
		}
	}
	for _, c := range f.fleets {
		for i := range c.steps {
			s := &c.steps[i]
			last := s.last(f.duration)
			for at := time.Duration(s.At); s.For > 0 && at <= last && len(marks) < 1000; at += max(time.Duration(s.Every), 1) {
				marks = append(marks, Mark{seconds(at), seconds(at + time.Duration(s.For)), "load", c.name, fmt.Sprintf("%s begin %.6g/s", c.name, c.rateOf(s))})
				if s.Every == 0 {
					break
				}
			}
		}
	}
	slices.SortStableFunc(marks, func(a, b Mark) int {
		switch {
		case a.From < b.From:
			return -1
		case a.From > b.From:
			return 1
		}
		return 0
	})
	return marks
}

// text says what a fault is.
func (f *namedFault) text(of string) string {
	some := ""
	if f.Replicas > 0 {
		some = fmt.Sprintf(", %d of its replicas", f.Replicas)
	}
	if f.Callers > 0 {
		some += fmt.Sprintf(", for %d of those who call", f.Callers)
	}
	part := ""
	if f.Share > 0 {
		part = fmt.Sprintf("%.6g%% of ", 100*float64(f.Share))
	}
	switch f.kind {
	case sim.Refuse:
		return part + of + " refuses connections" + some
	case sim.BlackHole:
		return part + of + " never answers" + some
	case sim.Reset:
		return part + of + " breaks connections" + f.costing() + some
	case sim.BrownOut:
		return fmt.Sprintf("%s has %.6g%% of its capacity%s", of, 100*float64(f.Factor), some)
	case sim.Slow:
		return part + of + " is slow" + f.slowness() + some
	case sim.Errors:
		return fmt.Sprintf("%s%s answers %s%s%s", part, of, f.answering(), f.costing(), some)
	case sim.LostAnswers:
		return part + "answers of " + of + " are lost" + some
	case sim.RateLimit:
		return fmt.Sprintf("%s lets %.6g/s through", of, float64(f.Limit.Rate))
	case sim.Restart:
		return of + " restarts" + some
	case sim.CutBody:
		return part + "answers of " + of + " break off" + some
	case sim.SlowBody:
		return part + "bodies of " + of + " take " + policy.FormatDuration(time.Duration(f.Add)) + " longer" + some
	case sim.CacheDown:
		return part + "caches of " + of + " are down"
	case sim.ClientRestart:
		if f.Replicas > 0 {
			return fmt.Sprintf("%d of %s restart", f.Replicas, of)
		}
		return of + " restart"
	case sim.StoreDown:
		return "the store of " + of + " is away"
	case sim.Skew:
		return fmt.Sprintf("clocks of %s are %s ahead", of, policy.FormatDuration(time.Duration(f.Add)))
	}
	return of + " get the policy " + f.Policy
}

func (f *namedFault) slowness() (text string) {
	if f.Factor > 0 {
		text = fmt.Sprintf(", %.6g times", float64(f.Factor))
	}
	if f.Add > 0 {
		text += ", by " + policy.FormatDuration(time.Duration(f.Add))
	}
	return text
}

// answering says what errors answer.
func (f *namedFault) answering() string {
	if len(f.Answers) == 0 {
		return fmt.Sprint(f.status())
	}
	var all []string
	for _, a := range f.Answers {
		all = append(all, wayName(a.Status))
	}
	return strings.Join(all, ", ")
}

// costing says that a failure is not free.
func (f *namedFault) costing() string {
	if f.CostsWork {
		return " at the cost of the work"
	}
	return ""
}
