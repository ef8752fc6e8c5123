package fleetcmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetview"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/fleetlook"
)

// record is the fleet in JSON.
type record struct {
	Version   int                `json:"version"`
	Fleet     string             `json:"fleet"`
	Now       time.Time          `json:"now"`
	Divided   time.Time          `json:"divided,omitzero"`
	Members   []fleetlook.Member `json:"members"`
	Overrides []fleet.Override   `json:"overrides"`
	Unread    []string           `json:"unread,omitempty"`
}

func recordOf(name string, v *fleetlook.View) record {
	return record{
		1, name, v.Now.UTC(), v.Divided, append([]fleetlook.Member{}, v.Members...), append([]fleet.Override{}, v.Overrides...), v.Unread,
	}
}

func (r *request) print(out io.Writer, v *fleetlook.View, s *fleetview.Sum) error {
	divided := "never divided"
	if !v.Divided.IsZero() {
		divided = "divided " + operator.Span(v.Now.Sub(v.Divided)) + " ago"
	}
	fmt.Fprintf(out, "fleet %s: %s, shares were %s. It is %s by the store's clock.\n", operator.Text(r.Fleet), cli.Count(s.Members, "member"), divided, v.Now.UTC().Format(time.RFC3339))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(s.Kinds) > 0 {
		fmt.Fprintln(w, "\nVERSION\tPOLICIES\tMEMBERS")
	}
	for i, k := range s.Kinds {
		ids := ""
		if i > 0 { // the odd ones are named
			ids = ": " + some(k.Members)
		}
		fmt.Fprintf(w, "%s\t%s\t%d%s\n", operator.Text(cmp.Or(k.Version, "-")), operator.Text(cmp.Or(k.Policies, "-")), len(k.Members), ids)
	}
	printSums(w, s)
	if r.members {
		printMembers(w, v)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printNotes(out, v, s)
}

func printSums(w io.Writer, s *fleetview.Sum) {
	if len(s.Dependencies) > 0 {
		fmt.Fprintln(w, "\nDEPENDENCY\tCALLS\tFAILED\tUNSENT\tP99\tOPEN")
	}
	for i := range s.Dependencies {
		d := &s.Dependencies[i]
		open := "-"
		if len(d.Open) > 0 {
			open = fmt.Sprintf("%d of %d: %s", len(d.Open), d.Members, some(d.Open))
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\n", operator.Text(d.Name), d.Calls, percent(d.Failed, d.Calls-d.Unsent), d.Unsent, d.Time(), open)
	}
	if len(s.Limits) > 0 {
		fmt.Fprintln(w, "\nLIMIT\tWHOLE\tIN SHARES\tWANTED\tMEMBERS")
	}
	for i := range s.Limits {
		l := &s.Limits[i]
		fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\t%d\n", operator.Text(l.Dependency), operator.Text(l.Name), fleetview.Number(l.Whole), fleetview.Number(l.Held), fleetview.Number(l.Wanted), l.Members)
	}
}

func printMembers(w io.Writer, v *fleetlook.View) {
	fmt.Fprintln(w, "\nMEMBER\tVERSION\tPOLICIES\tREPORTED\tSHARES UNTIL")
	for i := range v.Members {
		m := &v.Members[i]
		reported, until := "-", "-"
		if !m.Reported.IsZero() {
			reported = operator.Span(v.Now.Sub(m.Reported)) + " ago"
		}
		switch {
		case m.Left:
			until = "it has left"
		case m.Until.After(v.Now):
			until = "for " + operator.Span(m.Until.Sub(v.Now)) + " more"
		case !m.Until.IsZero():
			until = "ended"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", operator.Text(m.ID), operator.Text(cmp.Or(m.Version, "-")), operator.Text(cmp.Or(m.Policies, "-")), reported, until)
	}
}

// printNotes says what an operator should look at.
func printNotes(out io.Writer, v *fleetlook.View, s *fleetview.Sum) (err error) {
	note := func(format string, args ...any) {
		if _, failed := fmt.Fprintf(out, format+"\n", args...); err == nil {
			err = failed
		}
	}
	note("")
	for i := range s.Dependencies {
		for _, o := range s.Dependencies[i].Outliers {
			note("unlike the others, at %s: %s", operator.Text(s.Dependencies[i].Name), operator.Text(o))
		}
	}
	if len(s.Kinds) > 1 {
		note("versions or policies differ")
	}
	if len(s.Silent) > 0 {
		note("their shares have ended: %s", some(s.Silent))
	}
	if len(s.Lost) > 0 {
		note("could not reach the store before their last report: %s", some(s.Lost))
	}
	for i := range s.InForce {
		o := &s.InForce[i]
		rate := ""
		if o.Rate > 0 {
			rate = " " + o.Rate.String()
		}
		note("override %s: %s%s of %s for %s more, by %s: %s", operator.Text(o.ID), o.Action, rate, operator.Text(o.Dependency), operator.Span(o.Until.Sub(v.Now)), operator.Text(o.Who), operator.Text(o.Why))
	}
	for _, u := range v.Unread {
		note("can't be read: %s", operator.Text(u))
	}
	return err
}

// some are the first names of a list.
func some(names []string) string {
	const most = 5
	text := operator.Text(strings.Join(names[:min(len(names), most)], ", "))
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

func percent(part, of int64) string {
	if of <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(of))
}
