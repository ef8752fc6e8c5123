package fleetview

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/fleetlook"
)

// pods are members that are alike.
func pods(n int) *fleetlook.View {
	v := &fleetlook.View{Now: time.Unix(1000, 0)}
	for i := range n {
		v.Members = append(v.Members, fleetlook.Member{
			ID: fmt.Sprint("pod-", i), Version: "v1", Policies: "p", Until: v.Now.Add(time.Second),
			Dependencies: []fleetlook.Dependency{{Name: "payments", Calls: 100, Succeeded: 98, Unsent: 1, P99: 10 * time.Millisecond}},
			Shares:       []fleet.Share{{Dependency: "payments", Limit: "rate", Amount: 10, Of: 100, Wants: 12}},
		})
	}
	return v
}

func TestSum(t *testing.T) {
	v := pods(10)
	s := Of(v)
	d := s.Dependencies[0]
	if s.Members != 10 || len(s.Kinds) != 1 || d.Calls != 1000 || d.Failed != 10 || d.Unsent != 10 || d.P99 != 10*time.Millisecond || len(d.Open)+len(d.Outliers)+len(s.Silent)+len(s.Lost) != 0 {
		t.Errorf("%+v", s)
	}
	if want := (Limit{"payments", "rate", 100, 100, 120, 10}); s.Limits[0] != want {
		t.Errorf("%+v, want %+v", s.Limits[0], want)
	}
	if text := d.Time(); text != "10ms" {
		t.Errorf("a call takes %s", text)
	}
	for i := range v.Members {
		v.Members[i].Dependencies[0].Calls, v.Members[i].Dependencies[0].Succeeded = fewCalls, 0
	}
	if text := Of(v).Dependencies[0].Time(); text != "-" {
		t.Errorf("after few calls of each member a call takes %s", text)
	}
	v = pods(10)
	v.Members[3].Version, v.Members[4].Policies, v.Members[5].Left = "v2", "q", true
	v.Members[6].Until, v.Members[7].Lost, v.Members[8].Dependencies[0].Open = v.Now.Add(-time.Second), true, []string{""}
	v.Overrides = []fleet.Override{{ID: "a", Until: v.Now}, {ID: "b", Until: v.Now.Add(time.Second)}}
	s = Of(v)
	var kinds [][]string
	for _, k := range s.Kinds {
		kinds = append(kinds, append([]string{k.Version, k.Policies}, k.Members[:1]...))
	}
	if want := [][]string{{"v1", "p", "pod-0"}, {"v1", "q", "pod-4"}, {"v2", "p", "pod-3"}}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("kinds %v", kinds)
	}
	if s.Members != 9 || s.Limits[0].Held != 80 || fmt.Sprint(s.Silent, s.Lost, s.Dependencies[0].Open) != "[pod-6] [pod-7] [pod-8]" || len(s.InForce) != 1 || s.InForce[0].ID != "b" {
		t.Errorf("%+v", s)
	}
}

func TestOutliers(t *testing.T) {
	for fact, c := range map[string]struct {
		n      int
		change func(*fleetlook.Dependency)
		odd    int
	}{
		"all are alike":             {10, func(*fleetlook.Dependency) {}, 0},
		"one alone fails":           {10, func(d *fleetlook.Dependency) { d.Succeeded = 20 }, 1},
		"one fails a little more":   {10, func(d *fleetlook.Dependency) { d.Succeeded = 92 }, 0},
		"one is slow":               {10, func(d *fleetlook.Dependency) { d.P99 = time.Second }, 1},
		"one is slow and fails":     {10, func(d *fleetlook.Dependency) { d.P99, d.Succeeded = time.Second, 20 }, 2},
		"one has made few calls":    {10, func(d *fleetlook.Dependency) { d.Calls, d.Succeeded = 10, 0 }, 0},
		"one of two fails":          {2, func(d *fleetlook.Dependency) { d.Succeeded = 20 }, 0},
		"one has sent nothing":      {10, func(d *fleetlook.Dependency) { d.Succeeded, d.Unsent = 0, 100 }, 0},
		"one has refused, not sent": {10, func(d *fleetlook.Dependency) { d.Succeeded, d.Unsent = 40, 60 }, 0},
	} {
		v := pods(c.n)
		c.change(&v.Members[1].Dependencies[0])
		if odd := Of(v).Dependencies[0].Outliers; len(odd) != c.odd {
			t.Errorf("%s: %q", fact, odd)
		}
	}
	v := pods(10)
	for i := range v.Members {
		v.Members[i].Dependencies[0].Succeeded = 20
	}
	if odd := Of(v).Dependencies[0].Outliers; len(odd) != 0 {
		t.Errorf("all fail: %q", odd)
	}
}
