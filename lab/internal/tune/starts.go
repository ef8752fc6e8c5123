package tune

import (
	"reflect"
	"slices"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// defaultsAt is where the defaults are among starts, if the file differs from them.
const defaultsAt = 1

// Start is a policy from which a search can begin: the file as it is, the defaults or a
// preset. All say the same of the dependency and its callers, and have the file's timeout.call:
// how long callers wait is not for the lab to decide.
type Start struct {
	Name       string
	Policy     policy.Policy
	Dimensions []Dimension
	Changes    []Change // that make it of the file
}

// grid is where a search may go from a start, which is the first coordinate.
func (s *Start) grid(index int) Grid {
	g := Grid{From: Point{index}, Sizes: []int{1}}
	for i := range s.Dimensions {
		g.From, g.Sizes = append(g.From, s.Dimensions[i].Home), append(g.Sizes, len(s.Dimensions[i].Values))
	}
	return g
}

// Starts returns the file as it is, with its dimensions, then the defaults, with their own attempt
// timeout and with the file's, and the presets.
func Starts(f *config.File, dependency string, vary []string, dims []Dimension) []Start {
	today := f.Policies[dependency]
	all := []Start{{Name: "the file as it is", Policy: today, Dimensions: dims}}
	add := func(name string, p policy.Policy) {
		p, changes := difference(today, p)
		for i := range changes {
			changes[i].Source = settings(policyfile.Of(f).Reveal(dependency)).source(changes[i].Path)
		}
		known := slices.ContainsFunc(all, func(s Start) bool { return same(s.Policy, p) })
		if known || p.Validate() != nil {
			return
		}
		all = append(all, Start{Name: name, Policy: p, Changes: changes, Dimensions: spaceOf(f, dependency, vary, p)})
	}
	call := today.Resolved().Timeout.Call
	for _, name := range append([]string{""}, policy.PresetNames()...) {
		p, shown := factsOf(today, preset(name, call)), "the defaults"
		if name != "" {
			shown = "preset " + name
		}
		add(shown, p)
		if name == "" {
			p.Timeout = today.Timeout
			add(shown+", with the file's timeouts", p)
		}
	}
	return all
}

// Defaults is the policy of a file that says nothing of the dependency but what it is and how
// long a call may take. It is the yardstick of what is worse.
func Defaults(today policy.Policy) policy.Policy { return factsOf(today, policy.Policy{}) }

// factsOf returns p for the dependency and the callers of today's policy.
func factsOf(today, p policy.Policy) policy.Policy {
	p.Trust, p.Key, p.Safe, p.HTTP, p.GRPC, p.Partitions = today.Trust, today.Key, today.Safe, today.HTTP, today.GRPC, today.Partitions
	p.RateLimit = today.RateLimit // of the vendor
	p.Timeout.Call = today.Resolved().Timeout.Call
	return p
}

// same reports whether two policies decide alike.
func same(p, q policy.Policy) bool { return reflect.DeepEqual(p.Resolved(), q.Resolved()) }

// preset is what a file makes of a preset for a call of that length; "" means the empty policy.
func preset(name string, call time.Duration) policy.Policy {
	if name == "" {
		return policy.Policy{}
	}
	text := "version: 1\ndependencies: {x: {preset: " + name + ", timeout: {call: " + policy.FormatDuration(call) + "}}}\n"
	f, err := config.Parse(name, []byte(text))
	if err != nil { // such as of a call without an end
		p, _ := policy.Preset(name)
		return p
	}
	return f.Policies["x"]
}

// spaceOf are the dimensions around a policy. What it has switched off is not varied.
func spaceOf(f *config.File, dependency string, vary []string, p policy.Policy) (all []Dimension) {
	of := &config.File{Name: f.Name, Policies: map[string]policy.Policy{dependency: p}}
	if len(vary) == 0 {
		all, _, _ = Space(of, dependency, nil) // a key that cannot be varied is left out
	}
	for _, v := range vary {
		d, _, err := Space(of, dependency, []string{v})
		if err == nil {
			all = append(all, d...)
		}
	}
	today := settings(policyfile.Of(f).Reveal(dependency))
	for i := range all {
		all[i].Source = today.source(all[i].Path)
	}
	return all
}

// difference returns the changes that make one policy of another, and what they come to. What no
// file can say is left as it is.
func difference(from, to policy.Policy) (policy.Policy, []Change) {
	want := settingsOf(to)
	before := settingsOf(from)
	var changes []Change
	made, have := from, before
	for range 3 { // what follows from another value may change with it
		for _, s := range want {
			if at := have.find(s.Path); at != nil && at.Value == s.Value {
				continue
			}
			next, err := policyfile.Set(made, s.Path, s.Value)
			if err != nil {
				continue
			}
			made, have = next, settingsOf(next)
			changes = slices.DeleteFunc(changes, func(c Change) bool { return c.Path == s.Path })
			c := Change{Path: s.Path, From: "off", To: s.Value}
			if at := before.find(s.Path); at != nil {
				c.From = at.Value
			} else if s.Value == "off" {
				c.From = "on"
			}
			changes = append(changes, c)
		}
	}
	for i := 0; i < len(changes); { // without those that follow from others
		less := slices.Delete(slices.Clone(changes), i, i+1)
		if p := changed(from, less); same(p, made) {
			changes = less
		} else {
			i++
		}
	}
	return changed(from, changes), changes
}

func settingsOf(p policy.Policy) settings {
	return policyfile.Of(&config.File{Policies: map[string]policy.Policy{"x": p}}).Reveal("x")
}

// changed makes changes, each of which was made before.
func changed(p policy.Policy, changes []Change) policy.Policy {
	for _, c := range changes {
		if next, err := policyfile.Set(p, c.Path, c.To); err == nil {
			p = next
		}
	}
	return p
}
