package scenario

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// rulesOf returns what a named policy says on this side.
func (l *lowering) rulesOf(name string) *machine.Rules {
	if r, ok := l.rules[name]; ok {
		return r
	}
	p, from, called := l.policy(name)
	l.keyed[name] = from != nil && from == l.side.File && from != l.file.against && p.Key == policy.KeyRequired
	p, changed := l.changed(name, p)
	l.special = l.special || !l.fixed[name] && !reflect.DeepEqual(p, policy.Policy{Trust: p.Trust, Key: p.Key, Safe: p.Safe, Timeout: p.Timeout})
	p = l.placed(name, p)
	r, err := machine.Compile(p)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("%s: policy %s: %w", l.file.Name, name, err)
	}
	l.rules[name] = r
	l.repeated(name)
	used := Policy{Name: name, Source: l.file.Name, Settings: []policy.Setting{}}
	if from != nil {
		used.Source = from.Name
		if called != name {
			used.Called = called
		}
		for _, s := range from.Explain(called) {
			s.Why = ""
			used.Settings = append(used.Settings, s)
		}
	}
	if changed {
		used.Source = cmp.Or(l.side.Rival, l.side.Name)
		if l.side.Rival == "" && l.side.Name != name {
			used.Called = l.side.Name
		}
		used.Settings = settingsOf(p)
	}
	l.used = append(l.used, used)
	return r
}

// repeated takes a list of what is sent again.
func (l *lowering) repeated(name string) {
	if l.side.Repeats == nil || l.fixed[name] {
		return
	}
	words := l.side.Repeats(name)
	if words == nil {
		return
	}
	r, err := outcome.ReadRepeats(words)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("%s: policy %s: %w", l.file.Name, name, err)
	}
	l.repeats[name] = r
}

// placed keeps the endpoints of a policy that are services of the scenario. Where none is, the service that is called
// stands for all of them.
func (l *lowering) placed(name string, p policy.Policy) policy.Policy {
	var lacks []string
	for _, e := range p.Endpoints.List {
		if !slices.ContainsFunc(l.file.services, func(s namedService) bool { return s.name == e.Name }) {
			lacks = append(lacks, e.Name)
		}
	}
	switch {
	case len(lacks) == 0:
	case len(lacks) == len(p.Endpoints.List):
		p.Endpoints.List = nil
	case l.err == nil:
		l.err = fmt.Errorf("%s: policy %s: its endpoints %s are no services of the scenario, and others are: add them, or none", l.file.Name, name, strings.Join(lacks, ", "))
	}
	return p
}

// changed returns what the side makes of a policy, and whether it is another one.
func (l *lowering) changed(name string, p policy.Policy) (policy.Policy, bool) {
	if l.fixed[name] {
		return p, false
	}
	p, changed := rival(p, l.side.Rival)
	if l.side.Change != nil {
		p, changed = l.side.Change(p), true
	}
	if l.side.Edit == nil {
		return p, changed
	}
	edited, err := l.side.Edit(name, p)
	if err != nil && l.err == nil {
		l.err = err
	}
	return edited, changed || !reflect.DeepEqual(p, edited)
}
