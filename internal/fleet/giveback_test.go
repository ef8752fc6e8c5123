package fleet

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// step is one division of a story: when it is, after noon, and what the store has by then.
type step struct {
	after   time.Duration
	reports []Report
}

// told divides pools one after another.
func told(p *Pool, steps ...step) *Pool {
	for _, s := range steps {
		p = Divide(p, s.reports, noon.Add(s.after), lease, 0)
	}
	return p
}

// A process may go by a pool that is not the last. What its reports say of that counts, and no more.
func TestWhatIsGivenBackUnderAnEarlierPool(t *testing.T) {
	d := func(want, holds float64) Demand { return Demand{Resource: "r", Total: 100, Want: want, Holds: holds} }
	ms := time.Millisecond
	first := Divide(nil, []Report{asks("a", 1, 0, d(100, 0))}, noon, lease, 0)
	v := first.Version
	wants := asks("b", 1, 0, d(100, 0))
	silent := step{1000 * ms, []Report{asks("a", 2, 0, d(30, 100)), wants}}
	for _, c := range []struct {
		fact  string
		steps []step
		b     float64 // is given, that wants everything
	}{
		{"nothing, before it has heard of any", []step{silent}, 0},
		{"what fell, under the pool before", []step{silent, {1200 * ms, []Report{asks("a", 3, v, d(30, 30)), wants}}}, 70},
		{"what fell, under the one before that", []step{silent, {1200 * ms, silent.reports}, {1400 * ms, []Report{asks("a", 3, v, d(30, 30)), wants}}}, 70},
		{"what fell, under the last pool of before an outage", []step{{9 * time.Second, silent.reports}, {9200 * ms, []Report{asks("a", 3, v, d(30, 30)), wants}}}, 70},
		{"nothing, where no process wants it for a time", []step{
			{1000 * ms, []Report{asks("a", 2, 0)}}, {1200 * ms, []Report{asks("a", 2, 0)}}, {1400 * ms, []Report{asks("a", 3, 0), wants}},
		}, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got := given(told(first, c.steps...))["b"]; got != c.b {
				t.Errorf("the other is given %v, want %v", got, c.b)
			}
		})
	}
}

// What a process may have of earlier pools is kept from the latest to the earliest, without what a later one covers.
func TestWhatIsRememberedOfEarlierPools(t *testing.T) {
	d := Demand{Resource: "r", Total: 100, Want: 5, Holds: 20}
	in := func(v uint64, amount float64) Was { return Was{v, 0, amount, 2_000_000} }
	for _, c := range []struct {
		fact      string
		was, want []Was // besides the 20 of version 7
	}{
		{"each that gave more than the later ones", []Was{in(6, 30), in(5, 50)}, []Was{in(6, 30), in(5, 50)}},
		{"none that gave less", []Was{in(6, 50), in(5, 30)}, []Was{in(6, 50)}},
		{"four at most, and the last as long and as much as all before it", []Was{in(6, 30), in(5, 40), in(4, 50), in(3, 60)}, []Was{in(6, 30), in(5, 40), {4, 0, 60, 2_000_000}}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			old := pool(7, 20, Resource{})
			old.Pods[0].Until, old.Pods[0].Was = 2_000_000, c.was
			got := Divide(old, []Report{asks("me", 1, 0, d), asks("other", 1, 0, Demand{Resource: "r", Total: 100, Want: 100})}, noon, lease, 0)
			want := append([]Was{in(7, 20)}, c.want...)
			if was := got.Pod("me").Was; !slices.Equal(was, want) {
				t.Errorf("remembers %v, want %v", was, want)
			}
		})
	}
}

// A store that has lost everything gives those that hold something what they want, and not what one gets that is new.
func TestTheStoreHasLostEverything(t *testing.T) {
	d := func(want, holds float64) Demand { return Demand{Resource: "r", Total: 100, Want: want, Holds: holds} }
	p := Divide(nil, []Report{asks("a", 9, 7, d(10, 10)), asks("b", 9, 7, d(90, 90))}, noon, lease, 0)
	if got, want := given(p), map[string]float64{"a": 10, "b": 90}; !reflect.DeepEqual(got, want) {
		t.Errorf("given %v, want %v", got, want)
	}
}

// Hundreds of divisions in one lease are one process's mistake. The record stays one that can be read.
func TestManyDivisionsInOneLease(t *testing.T) {
	p := told(nil, slices.Repeat([]step{{0, []Report{asks("a", 1, 0, Demand{Resource: "r", Total: 100, Want: 100})}}}, 3*maxPast)...)
	b, err := p.Encode()
	if err == nil {
		_, err = ParsePool(b)
	}
	if err != nil || len(p.Past) != maxPast {
		t.Errorf("%d versions are remembered, %v", len(p.Past), err)
	}
}
