package overridecmd

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/fleet"
)

const jsonVersion = 1

// A record is an override in JSON.
type record struct {
	Version    int       `json:"version"`
	ID         string    `json:"id"`
	Dependency string    `json:"dependency"`
	Action     string    `json:"action"`
	Rate       float64   `json:"rate_per_second,omitempty"`
	InForce    bool      `json:"in_force"`
	Who        string    `json:"who"`
	Why        string    `json:"why"`
	At         time.Time `json:"at"`
	Until      time.Time `json:"until"`
	LiftedAt   time.Time `json:"lifted_at,omitzero"`
	LiftedBy   string    `json:"lifted_by,omitempty"`
	LiftedWhy  string    `json:"lifted_why,omitempty"`
}

func recordOf(o *fleet.Override, now time.Time) record {
	return record{
		jsonVersion, o.ID, o.Dependency, string(o.Action), float64(o.Rate), o.Active(now), o.Who, o.Why,
		o.At.UTC(), o.Until.UTC(), o.LiftedAt, o.LiftedBy, o.LiftedWhy,
	}
}

func list(ctx context.Context, c *call) error {
	all, now, err := fleet.Overrides(ctx, c.store, c.Fleet)
	if err != nil {
		return err
	}
	if c.json {
		records := []record{}
		for i := range all {
			records = append(records, recordOf(&all[i], now))
		}
		return operator.PrintJSON(c.stdout, map[string]any{"version": jsonVersion, "now": now.UTC(), "overrides": records})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(c.stdout, "no override is in force, and none was")
		return err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tWHAT\tIN FORCE\tWHO\tWHY")
	for i := range all {
		o := &all[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", operator.Text(o.ID), does(o), inForce(o, now), operator.Text(o.Who), operator.Text(o.Why))
	}
	return w.Flush()
}

// inForce says since when or until when.
func inForce(o *fleet.Override, now time.Time) string {
	switch {
	case !o.LiftedAt.IsZero():
		return fmt.Sprintf("lifted %s by %s: %s", stamp(o.LiftedAt), operator.Text(o.LiftedBy), operator.Text(o.LiftedWhy))
	case o.Active(now):
		return "for " + operator.Span(o.Until.Sub(now)) + " more"
	}
	return "ended " + stamp(o.Until)
}
