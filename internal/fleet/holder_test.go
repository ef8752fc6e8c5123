package fleet

import (
	"reflect"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// pool is what a store has whose clock says noon: one process is given some of r.
func pool(version uint64, amount float64, r Resource) *Pool {
	r.Name, r.Total = "r", 100
	return &Pool{Format: format, Version: version, At: noon.UnixMicro(), Length: lease.Microseconds(), Resources: []Resource{r},
		Pods: []Pod{{ID: "me", Count: 1, Until: lease.Microseconds(), Shares: []float64{amount}}}}
}

// before is a pool that was divided before the process's last report.
func before(p *Pool) *Pool {
	p.Pods[0].Count = 0
	return p
}

func holder(demands ...Demand) *Holder {
	h := New("me", lease)
	h.Report(0, demands)
	return h
}

const second = clock.Instant(time.Second)

func wants(want float64) Demand { return Demand{Resource: "r", Total: 100, Want: want} }

func TestALeaseEndsNoLaterThanThePoolKnows(t *testing.T) {
	for _, c := range []struct {
		fact     string
		asked    clock.Instant
		storeNow time.Duration // after the division
		want     clock.Instant
	}{
		{"at once", 5 * second, 0, 8 * second},
		{"a second after the division", 5 * second, time.Second, 7 * second},
		{"when it has ended", 5 * second, 4 * time.Second, 4 * second},
		{"the clock of another server is a little behind", 5 * second, -40 * time.Millisecond, 8 * second},
		{"the clock stepped back", 5 * second, -time.Second, never},
	} {
		t.Run(c.fact, func(t *testing.T) {
			h := holder(wants(50))
			s := h.Heard(c.asked, noon.Add(c.storeNow), pool(7, 40, Resource{}))
			if s.Until != c.want {
				t.Errorf("until %v, want %v", s.Until, c.want)
			}
			// The same pool, from a server whose clock is ahead: what was known before is as true.
			if s = h.Heard(c.asked, noon.Add(c.storeNow+time.Second), pool(7, 40, Resource{})); s.Until < c.want {
				t.Errorf("until %v after another answer, want %v", s.Until, c.want)
			}
		})
	}
}

// The pool that a store goes back to knows of an earlier end.
func TestALeaseEndsAsTheRestoredPoolSays(t *testing.T) {
	h := holder(wants(50))
	h.Heard(5*second, noon, pool(8, 40, Resource{}))
	older := pool(7, 40, Resource{})
	older.At -= time.Second.Microseconds()
	if s := h.Heard(6*second, noon.Add(time.Second), older); s.Until != 7*second {
		t.Errorf("until %v, want 7 s", s.Until)
	}
}

func TestWhatAProcessHoldsIsWhatItReports(t *testing.T) {
	short := Resource{Short: true, Level: 50}
	type step func(h *Holder) Shares
	part := func(version uint64, amount float64) *Pool {
		p := pool(version, amount, Resource{Short: true})
		p.Parts, p.All = 4, 70
		return p
	}
	without := pool(8, 0, Resource{})
	without.Pods[0].Until = 0
	hear := func(p *Pool) step { return func(h *Holder) Shares { return h.Heard(second, noon, p) } }
	for _, c := range []struct {
		fact          string
		demand        Demand
		steps         []step
		at            clock.Instant
		amount, after float64
		holds         float64
	}{
		{"nothing before it heard", wants(10), nil, second, 0, 0, 0},
		{"its share", wants(10), []step{hear(pool(7, 40, Resource{}))}, second, 40, 0, 40},
		{"its share stays under the same pool", wants(10), []step{hear(pool(7, 40, Resource{})), func(h *Holder) Shares {
			h.Report(second, h.demands)
			return h.Heard(2*second, noon, pool(7, 40, Resource{}))
		}}, second, 40, 0, 40},
		{"nothing after the end", wants(10), []step{hear(pool(7, 40, Resource{}))}, 4 * second, 40, 0, 0},
		{"its share stays when the store is away", wants(10), []step{hear(pool(7, 40, Resource{})), lose}, 4 * second, 40, 40, 40},
		{"nothing, if its policy says so", Demand{Resource: "r", Total: 100, Lost: -1}, []step{hear(pool(7, 40, Resource{})), lose}, 4 * second, 40, 0, 0},
		{"a part of the total, if its policy says so", Demand{Resource: "r", Total: 100, Lost: 0.25}, []step{hear(pool(7, 40, Resource{})), lose}, 4 * second, 40, 25, 25},
		{"a whole part", Demand{Resource: "r", Total: 9, Lost: 0.25, Whole: true}, []step{hear(pool(7, 4, Resource{})), lose}, 4 * second, 4, 2, 2},
		{"a tenth, if it never had a share", wants(10), []step{lose}, second, 0, 10, 10},
		{"one at least of whole numbers", Demand{Resource: "r", Total: 3, Whole: true}, []step{lose}, second, 0, 1, 1},
		{"nothing, if the lease ended before it knew that the store is away", wants(10), []step{hear(pool(7, 40, Resource{})), func(h *Holder) Shares {
			h.Report(5*second, h.demands)
			return h.Failed(6 * second)
		}}, 7 * second, 0, 0, 0},
		{"nothing is lost when the store is back", wants(10), []step{hear(pool(7, 40, Resource{})), lose, hear(pool(7, 40, Resource{}))}, 4 * second, 40, 0, 0},
		{"what it needs, when others want more", wants(10), []step{hear(pool(7, 40, short)), hear(pool(7, 40, short))}, second, 10, 0, 10},
		{"what it gave back it does not take again", wants(10), []step{hear(pool(7, 40, short)), hear(pool(7, 40, short)), hear(pool(7, 40, short))}, second, 10, 0, 10},
		{"a newer pool gives again", wants(10), []step{hear(pool(7, 40, short)), hear(pool(7, 40, short)), hear(pool(8, 30, short))}, second, 30, 0, 30},
		{"not one that was divided before it gave back", wants(10), []step{hear(pool(7, 40, short)), hear(pool(7, 40, short)), hear(before(pool(8, 30, short)))}, second, 10, 0, 10},
		{"a tenth of what it did not name, while the store is away", wants(10), []step{hear(pool(7, 40, Resource{})), lose, func(h *Holder) Shares {
			all := h.demands
			h.Report(2*second, nil)
			s, _ := h.Fit(all)
			return s
		}}, 4 * second, 0, 10, 10},
		{"a tenth more than it needs stays", wants(37), []step{hear(pool(7, 40, short)), hear(pool(7, 40, short))}, second, 40, 0, 40},
		{"its share stays, when others want no more", wants(10), []step{hear(pool(7, 40, Resource{})), hear(pool(7, 40, Resource{}))}, second, 40, 0, 40},
		{"what it needs of whole numbers is whole", Demand{Resource: "r", Total: 100, Want: 3.2, Whole: true}, []step{hear(pool(7, 40, short)), hear(pool(7, 40, short))}, second, 4, 0, 4},
		{"the least of its policy stays", Demand{Resource: "r", Total: 100, Want: 1, Least: 5}, []step{hear(pool(7, 40, short)), hear(pool(7, 40, short))}, second, 5, 0, 5},
		{"what it held last stays, though it needs less by then", wants(10), []step{hear(pool(7, 40, short)), lose, func(h *Holder) Shares {
			s, _ := h.Fit(h.demands)
			return s
		}}, 5 * second, 40, 40, 40},
		{"what it had without the store is no share when the store is back", Demand{Resource: "r", Total: 100, Lost: 0.5}, []step{hear(pool(7, 4, Resource{})), lose, func(h *Holder) Shares {
			h.Report(4*second, h.demands)
			return h.Heard(4*second, noon, pool(7, 4, Resource{}))
		}}, 5 * second, 4, 0, 4},
		{"what is in use is held", Demand{Resource: "r", Total: 100, Want: 10, Used: 33}, []step{hear(pool(7, 40, short)), hear(pool(7, 40, short))}, second, 10, 0, 33},
		{"an older pool gives no more", wants(60), []step{hear(pool(7, 20, Resource{})), hear(pool(6, 40, Resource{}))}, second, 20, 0, 20},
		{"a part of an earlier division is not gone back to", wants(10), []step{hear(pool(8, 40, short)), hear(pool(8, 40, short)), hear(part(7, 20)), hear(part(8, 40))}, second, 10, 0, 10},
		{"the same part of a smaller total", Demand{Resource: "r", Total: 50}, []step{hear(pool(7, 40, Resource{}))}, second, 20, 0, 20},
		{"and not twice", Demand{Resource: "r", Total: 50}, []step{hear(pool(7, 40, Resource{})), func(h *Holder) Shares {
			h.Report(second, h.demands)
			return h.Heard(2*second, noon, pool(7, 40, Resource{}))
		}}, second, 20, 0, 20},
		{"no more than its own policy's total", Demand{Resource: "r", Total: 30, Whole: true}, []step{hear(pool(7, 40, Resource{}))}, second, 30, 0, 30},
		{"a pool without it takes nothing away", wants(10), []step{hear(pool(7, 40, Resource{})), hear(&Pool{Version: 8, At: noon.UnixMicro()})}, second, 40, 0, 40},
		{"an answer to an older request is ignored", wants(10), []step{hear(pool(7, 40, Resource{})), func(h *Holder) Shares { return h.Heard(0, noon, pool(8, 90, Resource{})) }}, second, 40, 0, 40},
		{"what it held without the store stays, until a pool has a share for it", wants(10), []step{hear(pool(7, 40, Resource{})), lose, hear(without)}, 4 * second, 40, 40, 40},
		{"nothing of what a report did not name, though it wants it again", wants(10), []step{hear(pool(7, 40, Resource{})), func(h *Holder) Shares {
			h.Report(second, nil)
			s, _ := h.Fit([]Demand{wants(10)})
			return s
		}}, second, 0, 0, 0},
		{"nothing after it left", wants(10), []step{hear(pool(7, 40, Resource{})), lose, func(h *Holder) Shares { h.Leave(second); return h.Shares() }}, second, 0, 0, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			h := holder(c.demand)
			s := h.Shares()
			for _, step := range c.steps {
				s = step(h)
			}
			if got := s.Amounts[0]; got.Amount != c.amount || got.After != c.after {
				t.Errorf("%v in force, and %v after the end; want %v and %v", got.Amount, got.After, c.amount, c.after)
			}
			if got := h.Report(c.at, []Demand{c.demand}).Demands[0].Holds; got != c.holds {
				t.Errorf("it reports %v, want %v", got, c.holds)
			}
		})
	}
}

func lose(h *Holder) Shares { return h.Failed(2 * second) }

func TestWhenToRenew(t *testing.T) {
	short := Resource{Short: true, Level: 50}
	ms := func(n int) clock.Instant { return clock.Instant(n) * clock.Instant(time.Millisecond) }
	for _, c := range []struct {
		fact   string
		demand Demand
		do     func(h *Holder)
		next   [2]clock.Instant // for draws of 0 and almost 1
		rising bool             // 400 ms after the report
	}{
		{"a third of a lease, as a rule", wants(10), func(h *Holder) { h.Heard(0, noon, pool(7, 40, Resource{})) }, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"soon, while it is new", wants(10), func(h *Holder) {
			h.Heard(0, noon, pool(7, 40, Resource{}))
			h.count = settled - 1
		}, [2]clock.Instant{ms(187), ms(312)}, false},
		{"sooner, without a pool that another divides", wants(10), func(h *Holder) {
			h.Behind()
			h.Heard(0, noon, nil)
		}, [2]clock.Instant{ms(46), ms(78)}, false},
		{"later each time", wants(10), func(h *Holder) {
			for range 3 {
				h.Behind()
				h.Heard(0, noon, nil)
			}
		}, [2]clock.Instant{ms(187), ms(312)}, false},
		{"as a rule, when another divides a pool that it has", wants(10), func(h *Holder) {
			h.Behind()
			h.Heard(0, noon, pool(7, 40, Resource{}))
		}, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"soon, without a share", wants(10), func(*Holder) {}, [2]clock.Instant{ms(187), ms(312)}, false},
		{"soon, when others wait for it", wants(30), func(h *Holder) {
			h.Heard(0, noon, pool(7, 40, Resource{}))
			h.Heard(0, noon, pool(8, 30, short))
		}, [2]clock.Instant{ms(187), ms(312)}, false},
		{"as a rule, when they need not any more", wants(30), func(h *Holder) {
			h.Heard(0, noon, pool(7, 40, Resource{}))
			h.Heard(0, noon, pool(8, 30, short))
			h.Heard(0, noon, pool(8, 30, short))
		}, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"at once, when it gave back what the pool does not know", wants(10), func(h *Holder) { h.Heard(0, noon, before(pool(7, 40, short))) }, [2]clock.Instant{0, 0}, false},
		{"as a rule, when there is nothing to give back", wants(40), func(h *Holder) { h.Heard(0, noon, before(pool(7, 40, short))) }, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"as a rule, when others need nothing of it", wants(10), func(h *Holder) { h.Heard(0, noon, before(pool(7, 40, Resource{}))) }, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"at once, when it gave back what no report says", wants(10), func(h *Holder) {
			h.Heard(0, noon, pool(7, 40, short))
			h.Heard(0, noon, pool(7, 40, short))
		}, [2]clock.Instant{0, 0}, false},
		{"as a rule, when it told that already", wants(10), func(h *Holder) {
			h.Heard(0, noon, before(pool(7, 40, short)))
			h.Heard(0, noon, before(pool(7, 40, short)))
		}, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"soon, when the pool after that has nothing for it", wants(10), func(h *Holder) {
			h.Heard(0, noon, before(pool(7, 40, short)))
			h.Heard(0, noon, &Pool{Version: 8, At: noon.UnixMicro()})
		}, [2]clock.Instant{ms(187), ms(312)}, false},
		{"as a rule, under the pool after that", wants(30), func(h *Holder) {
			h.Heard(0, noon, pool(7, 40, Resource{}))
			h.Heard(0, noon, pool(8, 30, short))
			h.Heard(0, noon, pool(9, 30, short))
		}, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"as a rule, with less that no other wants", wants(30), func(h *Holder) {
			h.Heard(0, noon, pool(7, 40, Resource{}))
			h.Heard(0, noon, pool(8, 30, Resource{}))
		}, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"a sixth of a lease before the end", wants(10), func(h *Holder) { h.Heard(0, noon.Add(1800*time.Millisecond), pool(7, 40, Resource{})) }, [2]clock.Instant{ms(700), ms(700)}, false},
		{"soon, when it ended", wants(10), func(h *Holder) { h.Heard(0, noon.Add(4*time.Second), pool(7, 40, Resource{})) }, [2]clock.Instant{ms(187), ms(312)}, false},
		{"soon after a failure", wants(90), func(h *Holder) { h.Failed(0) }, [2]clock.Instant{ms(46), ms(546)}, false},
		{"half of a lease after many failures", wants(90), func(h *Holder) {
			for range 40 {
				h.Failed(0)
			}
		}, [2]clock.Instant{ms(46), ms(1546)}, false},
		{"as a rule again, when the store is back", wants(90), func(h *Holder) {
			h.Failed(0)
			h.Heard(0, noon, pool(7, 40, Resource{Level: 100}))
		}, [2]clock.Instant{ms(900), ms(1100)}, true},
		{"more is worth a renewal", wants(60), func(h *Holder) { h.Heard(0, noon, pool(7, 40, Resource{Level: 100})) }, [2]clock.Instant{ms(900), ms(1100)}, true},
		{"a little more is not", wants(42), func(h *Holder) { h.Heard(0, noon, pool(7, 40, Resource{Level: 100})) }, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"nor more than there is", wants(60), func(h *Holder) { h.Heard(0, noon, pool(7, 50, short)) }, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"half of it that others want is", wants(10), func(h *Holder) { h.Heard(0, noon, pool(7, 40, short)) }, [2]clock.Instant{ms(900), ms(1100)}, true},
		{"a quarter of it that others want is not", wants(30), func(h *Holder) { h.Heard(0, noon, pool(7, 40, short)) }, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"nor is the last slot", Demand{Resource: "r", Total: 100, Want: 0.2, Whole: true}, func(h *Holder) { h.Heard(0, noon, pool(7, 1, short)) }, [2]clock.Instant{ms(900), ms(1100)}, false},
		{"more is not asked of a store that is away", wants(60), func(h *Holder) {
			h.Heard(0, noon, pool(7, 40, Resource{Level: 100}))
			h.Failed(0)
		}, [2]clock.Instant{ms(46), ms(546)}, false},
		{"nor before it has a share again", wants(60), func(h *Holder) {
			h.Heard(0, noon, pool(7, 40, Resource{Level: 100}))
			h.Heard(0, noon, &Pool{Version: 8, At: noon.UnixMicro()})
		}, [2]clock.Instant{ms(187), ms(312)}, false},
		{"half of it that others do not want is not", wants(10), func(h *Holder) { h.Heard(0, noon, pool(7, 40, Resource{})) }, [2]clock.Instant{ms(900), ms(1100)}, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			h := holder(c.demand)
			if c.do(h); h.count < settled-1 {
				h.count = settled // it has been there for some time
			}
			got := [2]clock.Instant{h.Next(0, 0) / ms(1) * ms(1), h.Next(0, 0.99999) / ms(1) * ms(1)}
			if got[1]++; got[1]%ms(10) > 5 { // the draw is not quite 1
				got[1] += ms(1)
			}
			near := func(a, b clock.Instant) bool { return max(a, b)-min(a, b) <= ms(2) }
			if !near(got[0], c.next[0]) || !near(got[1], c.next[1]) {
				t.Errorf("renews at %v, want %v", got, c.next)
			}
			if got := h.Rising(ms(400), []Demand{c.demand}); got != c.rising {
				t.Errorf("worth a renewal: %v, want %v", got, c.rising)
			}
			if h.Rising(ms(100), []Demand{c.demand}) {
				t.Error("renews again at once")
			}
			if late := 100 * second; h.Next(late, 0) < late {
				t.Error("renews in the past")
			}
		})
	}
}

// What a smaller total leaves is in force before it is reported, or others would be given what is still in use.
func TestASmallerTotalIsInForceBeforeItIsReported(t *testing.T) {
	h := holder(wants(10))
	h.Heard(0, noon, pool(7, 40, Resource{}))
	if _, lower := h.Fit([]Demand{{Resource: "r", Total: 100, Want: 10}}); lower {
		t.Error("the same total makes a share smaller")
	}
	half := []Demand{{Resource: "r", Total: 50, Want: 10}}
	if s, lower := h.Fit(half); !lower || s.Amounts[0].Amount != 20 {
		t.Errorf("half of the total: %v, and smaller: %v; want 20 and true", s.Amounts[0].Amount, lower)
	}
	if _, lower := h.Fit(half); lower {
		t.Error("it becomes smaller twice")
	}
}

func TestWhoDivides(t *testing.T) {
	crowded := pool(7, 40, Resource{})
	for i := range 99 {
		crowded.Pods = append(crowded.Pods, Pod{ID: "x" + string(rune('A'+i)), Until: 1})
	}
	stranger := pool(7, 40, Resource{})
	stranger.Pods[0].ID = "other"
	gone := pool(7, 40, Resource{})
	gone.Pods[0].Until = 0
	ms := time.Millisecond
	for _, c := range []struct {
		fact string
		pool *Pool
		want float64
		age  time.Duration
		u    float64
		due  bool
	}{
		{"who finds none", nil, 10, 0, 0.99, true},
		{"a new one is not due", crowded, 10, 700 * ms, 0, false},
		{"eight of a hundred, after a quarter of a lease", crowded, 10, 750 * ms, 0.07, true},
		{"and no others", crowded, 10, 1100 * ms, 0.09, false},
		{"anyone, when it is half as old again", crowded, 10, 1125 * ms, 0.99, true},
		{"who wants more", crowded, 60, 125 * ms, 0.99, true},
		{"but not at once", crowded, 60, 124 * ms, 0.99, false},
		{"who is not in it", stranger, 10, 125 * ms, 0.99, true},
		{"who is gone in it", gone, 10, 125 * ms, 0.99, true},
		{"anyone, when the clock stepped back", crowded, 10, -60 * ms, 0.99, true},
		{"no one, when another server's clock is behind", crowded, 10, -40 * ms, 0, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			h := holder(wants(c.want))
			h.Heard(0, noon, pool(6, 40, Resource{Level: 100}))
			if got := h.Due(noon.Add(c.age), c.pool, c.u); got != c.due {
				t.Errorf("due: %v, want %v", got, c.due)
			}
		})
	}
}

// What a pool does to a holder is the same when both went through the store.
func TestRecordsAreWhatWasWritten(t *testing.T) {
	first := holder(wants(30), Demand{Resource: "s", Total: 7, Want: 3, Whole: true}).Report(second, []Demand{wants(30)})
	first.Facts = map[string]jsonRaw{"payments": jsonRaw(`{"limit":3}`)}
	b, err := first.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseReport(b)
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("read %+v, %v\nwrote %+v", again, err, first)
	}
	p := Divide(nil, []Report{*first}, noon, lease, 0)
	p = Divide(p, nil, noon.Add(time.Second), lease, 0)
	p.Known = jsonRaw(`[1]`)
	if b, err = p.Encode(); err != nil {
		t.Fatal(err)
	}
	if got, err := ParsePool(b); err != nil || !reflect.DeepEqual(p, got) {
		t.Errorf("read %+v, %v\nwrote %+v", got, err, p)
	}
}
