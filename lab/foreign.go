package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// Foreign are policies that play what another system does, as its file says it: a mesh, or a
// library in another language. The zero Foreign has none, and can't be run.
type Foreign struct {
	// Name is for people, such as "istio vs.yaml".
	Name string

	// Policies are the policies by the names of its routes. A timeout of zero is that of the
	// scenario's policy in whose place one stands, as are its key and its trust. Where there is one
	// policy, it stands for all of the scenario's.
	Policies map[string]policy.Policy

	// Repeats are the failures that a route sends again, by its name: statuses as "503", "5xx" or "500-504", codes of gRPC
	// as "unavailable" and "grpc" for all of them, "refused" for what was never sent, "reset" for a connection that broke
	// after that, and "timeout" for an attempt without an answer.
	// A route without an entry sends again what its policy does.
	Repeats map[string][]string
}

// side is what goes by the policies of another system, under the names that as gives them.
func (f *Foreign) side(as map[string]string) (scenario.Policies, error) {
	only, all := as[everything]
	switch {
	case all && len(as) > 1:
		return scenario.Policies{}, errors.New("lab: * is all policies of the scenario: name no other")
	case !all && len(as) == 0 && len(f.Policies) == 1:
		for name := range f.Policies {
			only, all = name, true
		}
	}
	route := func(name string) (called string, asked bool) {
		called, asked = as[name]
		switch {
		case all:
			return only, true
		case asked:
			return called, true
		}
		return name, false
	}
	find := func(name string) (policy.Policy, bool, error) {
		called, asked := route(name)
		p, ok := f.Policies[called]
		if !ok && (asked || len(as) == 0) {
			return p, false, fmt.Errorf("%s has no route %s; it has %s: say which one counts for %s", f.Name, called, f.routes(), name)
		}
		return p, ok, nil
	}
	edit := func(name string, p policy.Policy) (policy.Policy, error) {
		theirs, ok, err := find(name)
		if !ok {
			return p, err
		}
		return foreign.InPlace(theirs, p), nil
	}
	repeats := func(name string) []string {
		called, _ := route(name)
		return f.Repeats[called]
	}
	return scenario.Policies{Name: f.Name, Edit: edit, Repeats: repeats}, nil
}

func (f *Foreign) routes() string {
	const most = 12
	var names []string
	for name := range f.Policies {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(f.Policies)-most))
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}
