package fleet

import (
	"fmt"
	"testing"
	"time"
)

// putParts puts the parts of a pool. In a world where requests are lost some may be missing, or come when others have been put.
func (w *world) putParts(parts []Part) {
	for _, one := range parts {
		at := [2]int{one.Part, one.Of}
		record, err := one.Pool.Encode()
		if err != nil {
			w.t.Fatal(err)
		}
		switch {
		case w.rng.Float64() < w.faults.lost:
		case w.rng.Float64() < w.faults.slow:
			w.after(time.Duration(w.rng.Int64N(int64(w.length))), func() { w.store.parts[at] = record })
		default:
			w.store.parts[at] = record
		}
	}
}

func TestAFleetIsPutInPartsWhereItIsLarge(t *testing.T) {
	for _, c := range []struct {
		fact                string
		live, before, parts int
	}{
		{"a small fleet has none", 64, 0, 0},
		{"one more has four", 65, 0, 4},
		{"a thousand", 1000, 0, 32},
		{"ten thousand", 10_000, 0, 512},
		{"a fleet that shrinks a little keeps them", 33, 4, 4},
		{"one that shrinks more does not", 32, 4, 0},
		{"one that grows to twice as many keeps them", 2048, 32, 32},
		{"one that grows more does not", 2049, 32, 128},
		{"one that shrinks to a quarter keeps them", 256, 32, 32},
		{"one that shrinks more does not", 255, 32, 8},
	} {
		if got := partsFor(c.live, c.before); got != c.parts {
			t.Errorf("%s: %d that had %d have %d, want %d", c.fact, c.live, c.before, got, c.parts)
		}
	}
}

// Each process finds in its part what the whole pool says of it, whichever number of parts it knows.
func TestAPartSaysWhatThePoolSays(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	reports := make([]Report, 300)
	for i := range reports {
		reports[i] = Report{Format: format, ID: fmt.Sprint("pod-", i), Count: 1, Demands: []Demand{{Resource: rate, Total: 1000, Want: float64(i)}}}
	}
	reports[0].Demands[0].Want, reports[0].Demands[0].Holds = 0, 5
	few := Divide(nil, reports[:70], now, 10*time.Second, 0)
	many := Divide(few, reports, now.Add(time.Second), 10*time.Second, 0)
	if few.Parts != 4 || many.Parts != 16 {
		t.Fatalf("%d and %d parts, want 4 and 16", few.Parts, many.Parts)
	}
	parts := map[int][]*Pool{}
	for _, one := range many.Split(few) {
		if parts[one.Of] = append(parts[one.Of], one.Pool); len(parts[one.Of]) != one.Part {
			t.Fatalf("part %d of %d is number %d", one.Part, one.Of, len(parts[one.Of]))
		}
		record, err := one.Pool.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParsePool(record); err != nil {
			t.Error(err)
		}
	}
	if len(parts) != 2 || len(parts[4]) != 4 || len(parts[16]) != 16 {
		t.Fatalf("parts of %d kinds, %d and %d", len(parts), len(parts[4]), len(parts[16]))
	}
	for i := range reports {
		id := reports[i].ID
		for _, of := range []int{4, 16} {
			part := parts[of][PartOf(id, of)-1]
			got, want := part.Pod(id), many.Pod(id)
			if got == nil || got.Share(0) != want.Share(0) || got.Until != want.Until || got.Count != want.Count || got.Was != nil {
				t.Errorf("in its part of %d, %s has %+v, want %+v", of, id, got, want)
			}
			if part.Live() != 300 || part.Version != many.Version || part.Parts != 16 || part.At != many.At || len(part.Resources) != 1 {
				t.Errorf("the part of %d of %s is of %d processes, version %d, %d parts", of, id, part.Live(), part.Version, part.Parts)
			}
		}
	}
	for _, wild := range []*Pool{{Parts: maxParts + 1}, {Parts: -1}, {All: MaxPods + 1}, {All: -1}} {
		wild.Format, wild.Length = format, 1
		if record, err := wild.Encode(); err != nil {
			t.Error(err)
		} else if _, err := ParsePool(record); err == nil {
			t.Errorf("%d parts and %d processes are read", wild.Parts, wild.All)
		}
	}
	same := Divide(many, reports, now.Add(2*time.Second), 10*time.Second, 0)
	if n := len(same.Split(many)); n != 16 {
		t.Errorf("a pool with as many parts as the one before is put in %d, want 16", n)
	}
}

func TestProcessesOfALargeFleetTakeTurns(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	at := func(d time.Duration) int64 { return now.Add(d).UnixMicro() }
	const length = 12 * time.Second
	h := New("pod", length)
	for _, c := range []struct {
		fact string
		turn []byte
		pool *Pool
		busy bool
	}{
		{"nothing is there", nil, nil, false},
		{"one has begun", NewTurn("a", now.Add(-500*time.Millisecond)), nil, true},
		{"one has begun, and this is the pool before", NewTurn("a", now.Add(-500*time.Millisecond)), &Pool{At: at(-time.Second)}, true},
		{"one has begun, and this is its pool", NewTurn("a", now.Add(-500*time.Millisecond)), &Pool{At: at(-400 * time.Millisecond)}, false},
		{"one has begun long ago", NewTurn("a", now.Add(-time.Second)), nil, false},
		{"one has begun, and others did before it, but the pool is old", NewTurn("a", now), &Pool{At: at(-length/2 - 1000)}, false},
		{"the clock has stepped back", NewTurn("a", now.Add(time.Second)), nil, false},
		{"it is not a turn", []byte("x"), nil, false},
	} {
		if got := h.Busy(c.turn, c.pool, now); got != c.busy {
			t.Errorf("%s: busy is %v", c.fact, got)
		}
	}
}

// A pool of a large fleet costs more to divide, so those that want more wait longer for it.
func TestALargeFleetIsDividedLessOftenOnDemand(t *testing.T) {
	for _, c := range []struct {
		live int
		want time.Duration
	}{{1, time.Second}, {64, time.Second}, {250, time.Second}, {500, 2 * time.Second}, {750, 3 * time.Second}, {10_000, 3 * time.Second}} {
		if got := (&Pool{All: c.live}).sooner(24 * time.Second); got != c.want {
			t.Errorf("%d processes: %v, want %v", c.live, got, c.want)
		}
	}
}

// A process whose part is of an earlier division than it goes by has the whole pool read.
func TestAnEarlierPartIsNotTheLastWord(t *testing.T) {
	h := holder(wants(10))
	h.Heard(0, noon, pool(8, 40, Resource{}))
	for _, c := range []struct {
		version uint64
		all     int
		age     time.Duration
		due     bool
	}{{8, 70, 0, false}, {9, 70, 0, false}, {7, 70, 0, true}, {7, 0, 0, false}, {8, 70, lease * 3 / 8, true}, {8, 70, lease*3/8 - 1000, false}} {
		p := pool(c.version, 40, Resource{})
		p.All = c.all
		if got := h.Due(noon.Add(c.age), p, 1); got != c.due {
			t.Errorf("%+v is due: %v", c, got)
		}
	}
}
