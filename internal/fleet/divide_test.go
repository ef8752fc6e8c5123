package fleet

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"
)

var noon = time.UnixMicro(1_700_000_000_000_000)

const lease = 3 * time.Second

func asks(id string, count, ack uint64, demands ...Demand) Report {
	return Report{Format: format, ID: id, Count: count, Ack: ack, Demands: demands}
}

// given returns what a pool gives each process of its first resource.
func given(p *Pool) map[string]float64 {
	all := map[string]float64{}
	for i := range p.Pods {
		all[p.Pods[i].ID] = p.Pods[i].Share(0)
	}
	return all
}

func TestAPoolIsDividedByDemand(t *testing.T) {
	d := func(want float64) Demand { return Demand{Resource: "r", Total: 100, Want: want} }
	whole := func(want float64) Demand { return Demand{Resource: "r", Total: 10, Want: want, Whole: true} }
	for _, c := range []struct {
		fact    string
		reports []Report
		want    map[string]float64
	}{
		{"equals that want too much have the same", []Report{asks("a", 1, 0, d(90)), asks("b", 1, 0, d(90))}, map[string]float64{"a": 50, "b": 50}},
		{"who wants little has it", []Report{asks("a", 1, 0, d(10)), asks("b", 1, 0, d(90)), asks("c", 1, 0, d(60))}, map[string]float64{"a": 10, "b": 45, "c": 45}},
		{"three quarters of what is left over are spread evenly", []Report{asks("a", 1, 0, d(10)), asks("b", 1, 0, d(50))}, map[string]float64{"a": 25, "b": 65}},
		{"room comes after what all want", []Report{
			asks("a", 1, 0, Demand{Resource: "r", Total: 100, Want: 20, Room: 20}), asks("b", 1, 0, Demand{Resource: "r", Total: 100, Want: 70, Room: 5}),
		}, map[string]float64{"a": 25, "b": 75}},
		{"the least is given", []Report{asks("a", 1, 0, Demand{Resource: "r", Total: 100, Least: 30}), asks("b", 1, 0, d(100))}, map[string]float64{"a": 30, "b": 70}},
		{"a least above an equal part is an equal part", []Report{asks("a", 1, 0, Demand{Resource: "r", Total: 100, Least: 90}), asks("b", 1, 0, d(100))}, map[string]float64{"a": 50, "b": 50}},
		{"whole numbers are divided exactly", []Report{asks("a", 1, 0, whole(9)), asks("b", 1, 0, whole(9)), asks("c", 1, 0, whole(9))}, map[string]float64{"a": 4, "b": 3, "c": 3}},
		{"what is left over of whole numbers", []Report{asks("a", 1, 0, whole(0.5)), asks("b", 1, 0, whole(0)), asks("c", 1, 0, whole(0))}, map[string]float64{"a": 4, "b": 2, "c": 2}},
		{"the smallest total counts", []Report{asks("a", 1, 0, d(90)), asks("b", 1, 0, Demand{Resource: "r", Total: 50, Want: 90})}, map[string]float64{"a": 25, "b": 25}},
		{"who leaves has nothing", []Report{{ID: "a", Count: 2, Leaves: true, Demands: []Demand{d(50)}}, asks("b", 1, 0, d(200))}, map[string]float64{"b": 100}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			// The first division takes them for new. In the next ones they have given back and heard.
			var p *Pool
			for k := range 4 {
				reports := slices.Clone(c.reports)
				for i := range reports {
					reports[i].Count += uint64(k)
					if p != nil && !reports[i].Leaves {
						reports[i].Ack = p.Version
						reports[i].Demands = slices.Clone(reports[i].Demands)
						reports[i].Demands[0].Holds = p.holds(reports[i].ID, "r")
					}
				}
				p = Divide(p, reports, noon.Add(time.Duration(k)*time.Second), lease, 0)
			}
			if got := given(p); !reflect.DeepEqual(got, c.want) {
				t.Errorf("given %v, want %v", got, c.want)
			}
		})
	}
}

// As long as no process had a share, half is kept for those that come.
func TestTheFirstDoNotTakeAll(t *testing.T) {
	first := Demand{Resource: "r", Total: 100, New: true}
	long, whole, pair, counted := first, first, first, first
	long.Long = true
	whole.Whole, whole.Total = true, 7
	pair.Whole, pair.Total = true, 3
	counted.New, counted.Want = false, 80
	for _, c := range []struct {
		fact    string
		reports []Report
		want    map[string]float64
	}{
		{"one", []Report{asks("a", 1, 0, first)}, map[string]float64{"a": 50}},
		{"two", []Report{asks("a", 1, 0, first), asks("b", 1, 0, first)}, map[string]float64{"a": 25, "b": 25}},
		{"one of whole numbers", []Report{asks("a", 1, 0, whole)}, map[string]float64{"a": 4}},
		{"all, where each would have less than one", []Report{asks("a", 1, 0, pair), asks("b", 1, 0, pair)}, map[string]float64{"a": 2, "b": 1}},
		{"all of what counts for long", []Report{asks("a", 1, 0, long)}, map[string]float64{"a": 100}},
		{"what it wants, if it has counted that", []Report{asks("a", 1, 0, counted)}, map[string]float64{"a": 80}},
	} {
		if got := given(Divide(nil, c.reports, noon, lease, 0)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: given %v, want %v", c.fact, got, c.want)
		}
	}
	one := Divide(nil, []Report{asks("a", 1, 0, first)}, noon, lease, 0)
	grown := Divide(one, []Report{asks("a", 2, one.Version, Demand{Resource: "r", Total: 100, New: true, Holds: 50})}, noon.Add(time.Second), lease, 0)
	if got := given(grown)["a"]; got != 100 {
		t.Errorf("one that stays alone is given %v, want all", got)
	}
}

// A step of a story: at a time after noon, with these reports.
func TestASharePassesOnWhenItsHolderKnows(t *testing.T) {
	d := func(want, holds float64) Demand { return Demand{Resource: "r", Total: 100, Want: want, Holds: holds} }
	first := Divide(nil, []Report{asks("a", 1, 0, d(100, 0))}, noon, lease, 0)
	v1 := first.Version
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	later := func(reports []Report, after time.Duration) *Pool {
		return Divide(first, reports, at(after), lease, 0)
	}
	for _, c := range []struct {
		fact  string
		pool  *Pool
		wants map[string]float64
	}{
		{"a newcomer waits for what another holds", later([]Report{asks("a", 2, v1, d(100, 100)), asks("b", 1, 0, d(100, 0))}, time.Second), map[string]float64{"a": 50, "b": 0}},
		{"what was given back is free at once", later([]Report{asks("a", 2, v1, d(30, 30)), asks("b", 1, 0, d(100, 0))}, time.Second), map[string]float64{"a": 30, "b": 70}},
		{"a report of before the pool gives nothing back", later([]Report{asks("a", 2, 0, d(30, 30)), asks("b", 1, 0, d(100, 0))}, time.Second), map[string]float64{"a": 30, "b": 0}},
		{"an acknowledgement of a pool that does not exist gives nothing back", later([]Report{asks("a", 2, v1+1, d(30, 30)), asks("b", 1, 0, d(100, 0))}, time.Second), map[string]float64{"a": 30, "b": 0}},
		{"who holds more than it was given holds what it was given", later([]Report{asks("a", 2, v1, d(1e300, 1e300)), asks("b", 1, 0, d(100, 0))}, time.Second), map[string]float64{"a": 50, "b": 0}},
		{"who does not want it any more holds nothing", later([]Report{asks("a", 2, v1), asks("b", 1, 0, d(100, 0))}, time.Second), map[string]float64{"a": 0, "b": 100}},
		{"who leaves holds nothing", later([]Report{{ID: "a", Count: 2, Leaves: true}, asks("b", 1, 0, d(100, 0))}, time.Second), map[string]float64{"b": 100}},
		{"who died holds its share until the end", later([]Report{asks("b", 1, 0, d(100, 0))}, time.Second), map[string]float64{"a": 0, "b": 0}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got := given(c.pool); !reflect.DeepEqual(got, c.wants) {
				t.Errorf("given %v, want %v", got, c.wants)
			}
		})
	}
}

// The dead process's lease is counted from its last report to its end and skew longer, in pools that are divided all the time.
func TestTheLeaseOfTheDeadEnds(t *testing.T) {
	for _, c := range []struct {
		last time.Duration // when it reports last
		skew time.Duration // none counts as a sixty-fourth of a lease
	}{{0, 200 * time.Millisecond}, {100 * time.Millisecond, 200 * time.Millisecond}, {100 * time.Millisecond, 0}} {
		d, count := Demand{Resource: "r", Total: 100, Want: 100}, 1+uint64(c.last/(100*time.Millisecond))
		p := Divide(nil, []Report{asks("a", 1, 0, d)}, noon, lease, c.skew)
		for after := 100 * time.Millisecond; after <= 4*time.Second; after += 100 * time.Millisecond {
			// The dead one's last report is in the store all the time.
			p = Divide(p, []Report{asks("a", count, 0, d), asks("b", uint64(after), p.Version, Demand{Resource: "r", Total: 100, Want: 100, Holds: p.holdsOf("b")})}, noon.Add(after), lease, c.skew)
			b, want := given(p)["b"], 0.0
			switch in := after - max(c.skew, lease/tolerance); { // so long after what it has may be in force still
			case in >= c.last+lease:
				want = 100
			case in >= lease: // what it was given first has ended
				want = 50
			}
			if b != want {
				t.Fatalf("%+v: after %v the other is given %v, want %v", c, after, b, want)
			}
		}
		if p.Pod("a") == nil {
			t.Error("the dead one is forgotten while its report is there, and would be taken for a new one")
		}
		if n := p.Live(); n != 1 {
			t.Errorf("%d processes have shares, want one", n)
		}
		if p = Divide(p, []Report{asks("b", math.MaxUint64, p.Version)}, noon.Add(5*time.Second), lease, c.skew); p.Pod("a") != nil {
			t.Error("the dead one is remembered without a report")
		}
	}
}

// The store's clock steps an hour back: then leases seem to end in an hour. They are counted for their length at most.
func TestALeaseIsNoLongerAfterTheClockSteppedBack(t *testing.T) {
	d := Demand{Resource: "r", Total: 100, Want: 100}
	p := Divide(nil, []Report{asks("a", 1, 0, d), asks("c", 1, 0, d)}, noon, lease, 0)
	back := noon.Add(-time.Hour)
	for k := range 5 { // a died, and c is given less than it had and never reports again
		b := asks("b", uint64(k+1), p.Version, Demand{Resource: "r", Total: 100, Want: 100, Holds: p.holdsOf("b")})
		p = Divide(p, []Report{asks("a", 1, 0, d), b, asks("c", 2, 0, d)}, back.Add(time.Duration(k)*time.Second), lease, 0)
	}
	if got := given(p); got["b"] != 100 {
		t.Errorf("given %v, want everything for b", got)
	}
}

// What the next division has to know, and no more.
func TestWhatAPoolRemembers(t *testing.T) {
	d := func(want, holds float64) Demand { return Demand{Resource: "r", Total: 100, Want: want, Holds: holds} }
	first := Divide(nil, []Report{asks("a", 1, 0, d(60, 0)), asks("b", 1, 0, d(40, 0))}, noon, lease, 0)
	more := func(after time.Duration, reports ...Report) *Pool {
		return Divide(first, reports, noon.Add(after), lease, 0)
	}
	v := first.Version
	for _, c := range []struct {
		fact string
		pool *Pool
		want []Was // of a
	}{
		{"nothing, when shares stay", more(time.Second, asks("a", 2, v, d(60, 60)), asks("b", 2, v, d(40, 40))), nil},
		{"nothing, when a share grows", more(time.Second, asks("a", 2, v, d(90, 60)), asks("b", 2, v, d(10, 10))), nil},
		{"a share that becomes smaller", more(time.Second, asks("a", 2, 0, d(20, 60)), asks("b", 2, v, d(80, 40))), []Was{{v, 0, 60, 2_000_000}}},
		{"what was given back", more(time.Second, asks("a", 2, v, d(20, 30)), asks("b", 2, v, d(80, 40))), []Was{{v, 0, 30, 2_000_000}}},
		{"a share that ends earlier than it is counted, after an outage", more(2*time.Second, asks("a", 1, 0, d(60, 0)), asks("b", 2, v, d(40, 40))), []Was{{v, 0, 60, 3_000_000}}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got := c.pool.Pod("a").Was; !slices.Equal(got, c.want) {
				t.Errorf("remembers %v, want %v", got, c.want)
			}
		})
	}
	if same := more(0); same.Version <= v {
		t.Errorf("in the same microsecond, version %d follows %d", same.Version, v)
	}
	again := more(123456*time.Microsecond - time.Hour)
	if again.Version <= v || again.Version == v+1 {
		t.Errorf("after a step of the store's clock back, version %d follows %d", again.Version, v)
	}
}

func (p *Pool) holdsOf(id string) float64 {
	if pod := p.Pod(id); pod != nil {
		return pod.Share(0)
	}
	return 0
}

func TestAWildReportDoesNoHarm(t *testing.T) {
	d := Demand{Resource: "r", Total: 100, Want: 30}
	good := []Report{asks("a", 1, 0, d), asks("b", 1, 0, d), asks("c", 1, 0, d)}
	many := make([]Demand, MaxResources)
	for i := range many {
		many[i] = Demand{Resource: string(rune('A'+i%26)) + string(rune('0'+i/26)), Total: 1e300, Want: 1e300}
	}
	for _, c := range []struct {
		fact string
		wild Report
		each float64 // at least, of those that want 30
		anew bool    // it names other resources each time
	}{
		{"wants everything", asks("w", 1, 0, Demand{Resource: "r", Total: 1e300, Want: 1e300, Room: 1e300, Least: 1e300}), 25, false},
		{"wants less than nothing", asks("w", 1, 0, Demand{Resource: "r", Total: 100, Want: -1e300, Least: -1}), 30, false},
		{"is no number", asks("w", 1, 0, Demand{Resource: "r", Total: math.NaN(), Want: math.NaN()}), 30, false},
		{"wants infinitely much of an infinite total", asks("w", 1, 0, Demand{Resource: "r", Total: math.Inf(1), Want: math.Inf(1)}), 30, false},
		{"says that the total is next to nothing", asks("w", 1, 0, Demand{Resource: "r", Total: 1e-300}), 30, false},
		{"makes up a thousand resources", asks("w", 1, 0, many...), 30, false},
		{"says that its numbers are whole", asks("w", 1, 0, Demand{Resource: "r", Total: 100, Want: 3, Whole: true}), 30, false},
		{"lies about what it holds and knows", asks("w", 1, math.MaxUint64, Demand{Resource: "r", Total: 100, Want: 10, Holds: 1e300}), 30, false},
		{"makes up others each time", asks("w", 1, 0, many...), 30, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			c.wild.sanitize()
			var p *Pool
			for k := range 5 {
				reports := make([]Report, 0, 4)
				for _, r := range good {
					if c.anew && k < 2 {
						break // they come later, and need what is free
					}
					r.Count, r.Ack = uint64(k+1), 0
					if p != nil {
						r.Ack = p.Version
						r.Demands = []Demand{d}
						r.Demands[0].Holds = p.holds(r.ID, "r")
					}
					reports = append(reports, r)
				}
				if c.wild.Count = uint64(k + 1); c.wild.Ack > 0 {
					c.wild.Count = math.MaxUint64 - 10 + uint64(k)
				}
				for i := 0; c.anew && i < len(c.wild.Demands); i++ {
					c.wild.Demands[i].Resource = fmt.Sprint(k, i)
				}
				p = Divide(p, append(reports, c.wild), noon.Add(time.Duration(k)*time.Second), lease, 0)
				record, err := p.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if p, err = ParsePool(record); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range good {
				if got := p.holds(r.ID, "r"); got < c.each*0.999 {
					t.Errorf("%s is given %v, want %v", r.ID, got, c.each)
				}
			}
		})
	}
}

func (p *Pool) holds(id, resource string) float64 {
	for i, r := range p.Resources {
		if r.Name == resource {
			return p.Pod(id).Share(i)
		}
	}
	return 0
}

// pourSlowly is what fill does, by drops into the glass that stands lowest.
func pourSlowly(total int, wants, bases []float64) []float64 {
	given := make([]float64, len(wants))
	for range total {
		lowest := -1
		for i := range wants {
			stands := bases[i] + given[i]
			if stands < wants[i] && (lowest < 0 || stands < bases[lowest]+given[lowest]) {
				lowest = i
			}
		}
		if lowest < 0 {
			break
		}
		given[lowest]++
	}
	return given
}

func FuzzFill(f *testing.F) {
	f.Add(uint16(100), []byte{1, 0, 2, 1, 3, 4, 200, 0, 200, 9})
	f.Add(uint16(7), []byte{0, 0, 0, 9, 9, 9, 9, 0})
	f.Fuzz(func(t *testing.T, total uint16, raw []byte) {
		if len(raw) > 100 {
			return
		}
		var wants, bases []float64
		var holders []*claim
		for k := 0; k+1 < len(raw); k += 2 {
			wants, bases = append(wants, float64(raw[k])), append(bases, float64(raw[k+1]))
			holders = append(holders, &claim{force: bases[len(bases)-1]})
		}
		drops := pourSlowly(int(total), wants, bases)
		exact, level := fill(float64(total), wants, bases, holders, false)
		whole, _ := fill(float64(total), wants, bases, holders, true)
		poured := [3]float64{}
		for i := range wants {
			if math.Abs(exact[i]-drops[i]) > 1+1e-9 || math.Abs(whole[i]-drops[i]) > 1 || whole[i] != math.Floor(whole[i]) {
				t.Fatalf("%d into %v over %v: %v and %v, want %v", total, wants, bases, exact, whole, drops)
			}
			if exact[i] > 0 && bases[i]+exact[i] > level+1e-9 || whole[i] > max(0, wants[i]-bases[i]) {
				t.Fatalf("%d into %v over %v: %v above %v, or %v above the wants", total, wants, bases, exact, level, whole)
			}
			poured[0], poured[1], poured[2] = poured[0]+drops[i], poured[1]+exact[i], poured[2]+whole[i]
		}
		if math.Abs(poured[0]-poured[1]) > 1e-6 || poured[0] != poured[2] {
			t.Fatalf("%d into %v over %v: poured %v", total, wants, bases, poured)
		}
	})
}
