package overridecmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetstore"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/fleetlook"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/policy"
)

var actions = []string{string(fleet.ForceOpen), string(fleet.Disable), string(fleet.Observe), string(fleet.RetriesOff), string(fleet.LimitRate)}

// checkSet wants a dependency and an action.
func checkSet(o *options) error {
	if len(o.words) < 2 {
		return operator.Wrongf("say which dependency, and what: gabion override payments force-open --for 5m --why TEXT")
	}
	action, rest := o.words[1], o.words[2:]
	if !slices.Contains(actions, action) {
		near := ""
		if s := suggest.Nearest(action, actions); s != "" {
			near = "; did you mean " + s + "?"
		}
		return operator.Wrongf("%q is no action: it is one of %s%s", action, strings.Join(actions, ", "), near)
	}
	if action == string(fleet.LimitRate) {
		if len(rest) == 0 {
			return operator.Wrongf("say which rate: gabion override %s rate 50/s", o.words[0])
		}
		if _, err := rateOf(rest[0]); err != nil {
			return err
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		return operator.Wrongf("%q is not expected", rest[0])
	}
	return o.checkOrder()
}

// checkOrder is about what every order needs.
func (o *options) checkOrder() error {
	switch {
	case !o.all:
		return operator.Wrongf("an override is for all processes of the fleet: one of them has its own page")
	case o.lasts <= 0:
		return operator.Wrongf("say with --for how long, such as --for 5m: every override ends")
	case o.lasts > fleet.MaxOverride:
		return operator.Wrongf("--for is at most %v: every override ends", fleet.MaxOverride)
	}
	return o.checkWhy()
}

func (o *options) checkWhy() error {
	if strings.TrimSpace(o.why) == "" {
		return operator.Wrongf("say with --why why, such as --why INC-123: it is kept for the audit")
	}
	return nil
}

func checkKill(o *options) error {
	if err := checkNone(o); err != nil {
		return err
	}
	return o.checkOrder()
}

func checkNone(o *options) error {
	if len(o.words) > 0 {
		return operator.Wrongf("%q is not expected", o.words[0])
	}
	return nil
}

func checkLift(o *options) error {
	if len(o.words) != 1 {
		return operator.Wrongf("say which by its ID, one at a time: gabion override list shows them")
	}
	return o.checkWhy()
}

// rateOf reads a number of attempts in a second, a minute or an hour.
func rateOf(text string) (policy.PerSecond, error) {
	number, unit, _ := strings.Cut(text, "/")
	seconds, known := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || !(n/seconds >= 1e-3 && n/seconds <= 1e9) {
		return 0, operator.Wrongf("%q: it is a number of attempts in a second, a minute or an hour, such as 50/s or 100/m, and at least one in 1000 s", text)
	}
	return policy.PerSecond(n / seconds), nil
}

func set(ctx context.Context, c *call) error {
	o := fleet.Override{Dependency: c.words[0], Action: fleet.Action(c.words[1])}
	if o.Action == fleet.LimitRate {
		o.Rate, _ = rateOf(c.words[2]) // it was checked
	}
	return c.order(ctx, o)
}

func kill(ctx context.Context, c *call) error {
	return c.order(ctx, fleet.Override{Dependency: fleet.Everything, Action: fleet.RetriesOff})
}

func (c *call) order(ctx context.Context, o fleet.Override) error {
	o.For, o.Who, o.Why = c.lasts, c.who, c.why
	made, err := fleet.Steer(ctx, c.store, c.Fleet, o)
	if err != nil {
		return err
	}
	if text := c.misses(ctx, o.Dependency); text != "" {
		fmt.Fprintf(c.stderr, "note: %s\n", text)
	}
	if c.json {
		return operator.PrintJSON(c.stdout, recordOf(&made, made.At))
	}
	_, err = fmt.Fprintf(c.stdout, "%s: %s, until %s. To end it: gabion override lift %s --why TEXT\n", made.ID, does(&made), stamp(made.Until), made.ID)
	return err
}

// misses says who an override does not reach: no process at all, where the fleet or the dependency has another name. It is in force all the same, for
// those that start later.
func (c *call) misses(ctx context.Context, dependency string) string {
	v, err := fleetlook.Look(ctx, c.store, c.Fleet)
	if err != nil {
		return "" // who may not look can't be told
	}
	members, names := 0, map[string]bool{}
	for i := range v.Members {
		if m := &v.Members[i]; !m.Left {
			members++
			for j := range m.Dependencies {
				names[m.Dependencies[j].Name] = true
			}
		}
	}
	base, _, _ := strings.Cut(dependency, "/")
	switch {
	case members == 0:
		elsewhere := cmp.Or(operator.Text(fleetstore.Elsewhere(ctx, c.store, c.Fleet)), "--fleet names another one")
		return fmt.Sprintf("the fleet %s has no members now: %s", operator.Text(c.Fleet), elsewhere)
	case dependency == fleet.Everything, names[dependency], names[base]:
		return ""
	}
	near := ""
	if s := suggest.Nearest(dependency, slices.Sorted(maps.Keys(names))); s != "" {
		near = "; did you mean " + operator.Text(s) + "?"
	}
	return fmt.Sprintf("no member has a dependency %s%s", operator.Text(dependency), near)
}

func lift(ctx context.Context, c *call) error {
	if err := fleet.Lift(ctx, c.store, c.Fleet, c.words[0], c.who, c.why); err != nil {
		return err
	}
	if c.json {
		return operator.PrintJSON(c.stdout, map[string]any{"version": jsonVersion, "lifted": c.words[0]})
	}
	_, err := fmt.Fprintf(c.stdout, "%s is lifted\n", operator.Text(c.words[0]))
	return err
}

// does says what an override does.
func does(o *fleet.Override) string {
	of := operator.Text(o.Dependency)
	if o.Dependency == fleet.Everything {
		of = "all dependencies"
	}
	if o.Action == fleet.LimitRate {
		return fmt.Sprintf("rate %s/s for %s", strconv.FormatFloat(float64(o.Rate), 'g', 6, 64), of)
	}
	return fmt.Sprintf("%s for %s", o.Action, of)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
