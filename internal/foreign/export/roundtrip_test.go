package export

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/foreign/formats"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// unread are keys that a file says and its reader does not take, with why.
var unread = map[string]string{
	"safe":                "a reader can't know it: it reads that the other system repeats",
	"http.permanent":      "a file says it by leaving a status out, which a reader tells as a remark",
	"grpc.permanent":      "a file says it by leaving a code out, which a reader tells as a remark",
	"http":                "it is no key",
	"dapr http.transient": "its reader tells lists of statuses and codes as remarks",
	"dapr grpc.transient": "its reader tells lists of statuses and codes as remarks",
	"bulkhead.off":        "a limit of 4294967295 is read as one of 2097151, the most that a policy has",
	"retry.budget":        "", // of one attempt; else it is compared
}

// elsewhere are keys that come back as another one, which says the same.
var elsewhere = map[string]string{"dapr timeout.call": "timeout.attempt"} // of one attempt

// Gabion to another system and back. A policy and what its export comes to differ in what the table calls
// nearly or lost, and in nothing else. What its reader gets of the file is what the table says, to the last key, and so
// is what the other system does, as the lab plays it.
func TestThereAndBack(t *testing.T) {
	for _, f := range Formats() {
		reader, err := formats.Find(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range some() {
			e := f.Write(Dependency{Name: "stock", Policy: p})
			found := unsaid(p, e)
			if found == "" {
				found = returned(reader, f.Name, e)
			}
			if found != "" {
				t.Fatalf("%s: %s\n%+v\n%s", f.Name, found, p, table(e))
			}
		}
	}
}

// back reads an export, and returns the first route: that of the calls that are repeated.
func back(f foreign.Format, text string) (foreign.Route, error) {
	doc, trees, found := yamlstrict.Trees("export", []byte(text))
	if len(found) > 0 {
		return foreign.Route{}, found[0]
	}
	if f.Like != nil && !f.Like([]byte(text), trees) {
		return foreign.Route{}, fmt.Errorf("it is not taken for %s", f.Name)
	}
	in := f.Read(&foreign.File{Name: "export", Text: []byte(text), Document: doc, Documents: trees})
	if len(in.Wrong) > 0 {
		return foreign.Route{}, in.Wrong[0]
	}
	if i := slices.IndexFunc(in.Remarks, func(r foreign.Remark) bool { return r.Fate == foreign.Unknown }); i >= 0 {
		return foreign.Route{}, fmt.Errorf("unknown: %+v", in.Remarks[i])
	}
	if len(in.Routes) == 0 {
		return foreign.Route{}, fmt.Errorf("no route")
	}
	return in.Routes[0], nil
}

// returned says which key did not come back as the table says.
func returned(f foreign.Format, name string, e Export) string {
	route, err := back(f, e.Text)
	if err != nil {
		return err.Error()
	}
	want := reflect.ValueOf(e.Comes)
	got := reflect.ValueOf(route.Policy.Resolved())
	for _, row := range e.Rows {
		if _, not := unread[name+" "+row.Key]; not {
			continue
		}
		if _, not := unread[row.Key]; not && !(row.Key == "retry.budget" && e.Comes.Retry.Attempts > 1 && !e.Comes.Retry.Budget.Off) {
			continue
		}
		if row.Fate == foreign.Lost || row.Target == "" {
			continue
		}
		a, b := fieldAt(want, row.Key).Interface(), fieldAt(got, cmp.Or(elsewhere[name+" "+row.Key], row.Key)).Interface()
		if budget, is := a.(policy.Budget); is {
			b = trimmed(b.(policy.Budget))
			a = trimmed(budget)
		}
		if !reflect.DeepEqual(a, b) {
			return fmt.Sprintf("%s comes back as %v, want %v", row.Key, b, a)
		}
	}
	plays, comes := endless(plain(route.Plays)), endless(plain(e.Comes))
	for _, path := range differing(plays, comes) {
		if !slices.Contains(played[""], path) && !slices.Contains(played[name], path) {
			return fmt.Sprintf("%s: plays\n%+v\nnot\n%+v", path, plays, comes)
		}
	}
	return ""
}

// trimmed is a budget with its defaults, and its share without the rounding of percents.
func trimmed(b policy.Budget) policy.Budget {
	if !b.Off {
		b = policy.Policy{Retry: policy.Retry{Budget: b}}.Resolved().Retry.Budget
	}
	b.Ratio = policy.Ratio(math.Round(float64(b.Ratio)*1e6) / 1e6)
	return b
}

// played are keys that a reader can't know: it reads that the other system repeats, and takes what a list leaves
// out for a remark.
var played = map[string][]string{
	"":     {"safe", "http.permanent", "grpc.permanent", "partitions.max"},
	"dapr": {"http.transient", "grpc.transient"},

	// Of a service config ABORTED is a permanent code, so that what is said of conflicts has no effect, and a
	// server's pushback is waited for however long it is.
	"grpc": {"retry.max_after", "retry.contention.attempts", "retry.contention.backoff.base", "retry.contention.backoff.cap", "retry.contention.repeats"},
}

// endless takes the highest limits that a policy has for none, and shares for alike that differ by rounding.
func endless(p policy.Policy) policy.Policy {
	p.Retry.Budget = trimmed(p.Retry.Budget)
	if t := &p.Timeout; p.Retry.Attempts <= 1 && t.Last > 0 && t.Call <= 0 {
		t.Call, t.Last = t.Last, policy.Off // one attempt is the call
	}
	if p.Bulkhead.Limit >= 1<<21-1 {
		p.Bulkhead = policy.Bulkhead{Off: true}
	}
	if p.Retry.Budget.MinInFlight >= 1<<20 {
		p.Retry.Budget = policy.Budget{Off: true}
	}
	return p
}
