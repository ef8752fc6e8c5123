package demo

import (
	"slices"
	"testing"
	"time"
)

// at is a moment in seconds.
func at(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// The plan of these tests: healthy to 10, a fault to 20, healthy to 30.
func smallPlan() Plan {
	return Plan{Total: at(32), Phases: []Phase{
		{Name: "before", End: at(10)},
		{Name: "fault", wrong: true, says: "503", Start: at(10), End: at(20)},
		{Name: "after", Start: at(20), End: at(30)},
	}}
}

// steady is ten calls a second from one time to another, all ended alike.
func steady(from, to float64, r record) []record {
	var all []record
	for n := int(from * 10); n < int(to*10); n++ {
		r.order = Order{Number: n, At: at(float64(n) / 10)}
		all = append(all, r)
	}
	return all
}

var (
	fine = record{took: at(0.01), result: result{ok: true}}
	late = record{took: inTime + 1, result: result{ok: true}}
	lost = record{took: at(1), result: result{reason: "reset"}}
)

func TestRecovery(t *testing.T) {
	for _, c := range []struct {
		fact    string
		records []record
		until   float64
		want    float64
		ok      bool
	}{
		{"who never left is back at once", steady(0, 30, fine), 30, 0, true},
		{"who is back after 3 s is back after 3 s", slices.Concat(steady(0, 20, fine), steady(20, 23, lost), steady(23, 30, fine)), 30, 3, true},
		{"success that comes late is no success", slices.Concat(steady(0, 20, fine), steady(20, 22, late), steady(22, 30, fine)), 30, 2, true},
		{"a relapse counts", slices.Concat(steady(0, 27, fine), steady(27, 27.5, lost), steady(27.5, 30, fine)), 30, 7.5, true},
		{"who is down at the end is never back", slices.Concat(steady(0, 29.5, fine), steady(29.5, 30, lost)), 30, never, false},
		{"who never worked is never back", steady(0, 30, lost), 30, never, false},
		{"a run cut before the fault was over shows nothing", steady(0, 15, fine), 15, never, false},
		{"a run cut later is judged by what there is", steady(0, 25, fine), 25, 0, true},
		{"nothing at all is never back", nil, 0, never, false},
	} {
		e := evidence{records: c.records, until: at(c.until)}
		if got, ok := e.recovery(smallPlan()); got != c.want || ok != c.ok {
			t.Errorf("%s: got %v, %v", c.fact, got, ok)
		}
	}
}

func TestNearTheBaselineIsEnough(t *testing.T) {
	// One call of the five in each bin fails: 80 % is not near.
	thin := steady(20, 30, fine)
	for i := range thin {
		if i%5 == 0 {
			thin[i] = record{order: thin[i].order, result: result{reason: "503"}}
		}
	}
	e := evidence{records: slices.Concat(steady(0, 20, fine), thin), until: at(30)}
	if _, ok := e.recovery(smallPlan()); ok {
		t.Error("80 % was near enough")
	}
	e.records = slices.Concat(steady(0, 20, fine), steady(20, 30, fine))
	for i := 0; i < 200; i += 20 {
		e.records[i] = record{order: e.records[i].order, result: result{reason: "503"}} // the baseline is 95 %, and more is fine
	}
	if got, ok := e.recovery(smallPlan()); !ok || got != 0 {
		t.Errorf("better than the baseline: got %v, %v", got, ok)
	}
}

func TestPercentileIsNearestRankOverAllCalls(t *testing.T) {
	times := func(ms ...int) (all []record) {
		for _, m := range ms {
			all = append(all, record{took: time.Duration(m) * time.Millisecond})
		}
		return all
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[99-i] = i + 1
	}
	for _, c := range []struct {
		fact    string
		records []record
		p, want float64
	}{
		{"of nothing it is 0", nil, 0.5, 0},
		{"of one it is that one", times(7), 0.99, 7},
		{"the median of two is the lower", times(9, 1), 0.5, 1},
		{"the median of three is the middle", times(9, 1, 5), 0.5, 5},
		{"the 99th of 1 to 100 is 99", times(hundred...), 0.99, 99},
		{"the 50th of 1 to 100 is 50", times(hundred...), 0.50, 50},
	} {
		if got := (evidence{records: c.records}).percentile(c.p); got != c.want {
			t.Errorf("%s: got %v, want %v", c.fact, got, c.want)
		}
	}
}

func TestRetryTailIsTheLastRepeatAfterTheFault(t *testing.T) {
	for _, c := range []struct {
		fact     string
		arrivals []arrival
		want     float64
	}{
		{"no request, no tail", nil, 0},
		{"first attempts are no retries", []arrival{{at(25), 1, 1}}, 0},
		{"repeats during the fault are no tail", []arrival{{at(19), 1, 2}}, 0},
		{"the last repeat counts", []arrival{{at(21), 1, 2}, {at(24.25), 1, 3}, {at(29), 2, 1}}, 4.25},
	} {
		if got := (evidence{arrivals: c.arrivals}).retryTail(smallPlan()); got != c.want {
			t.Errorf("%s: got %v, want %v", c.fact, got, c.want)
		}
	}
}

// One run, reckoned by hand.
func TestMeasure(t *testing.T) {
	order := func(n int, s float64) Order { return Order{Number: n, At: at(s)} }
	e := evidence{
		until: at(30),
		records: []record{
			{order: order(0, 1), took: at(0.1), result: result{ok: true}},
			{order: order(1, 11), took: at(3), result: result{ok: true}},
			{order: order(2, 12), took: at(1), result: result{reason: "503", denies: true}},
			{order: order(3, 13), took: at(1), result: result{reason: "reset"}},
			{order: order(4, 14), took: at(1), result: result{ok: true}},
			{order: order(5, 21), took: at(9), open: true},
			{order: order(6, 29), took: at(1), open: true},
		},
		arrivals: []arrival{
			{at(1), 0, 1}, {at(11), 1, 1}, {at(12), 2, 1}, {at(13), 3, 1}, {at(14), 4, 1},
			{at(14.2), 3, 2}, {at(15), 1, 2}, {at(16), 1, 3}, {at(21), 5, 1}, {at(22), 5, 2},
		},
		charges: map[string]int{orderID(0): 1, orderID(1): 3, orderID(2): 1, orderID(3): 2, orderID(5): 1},
	}
	r := e.measure(client{name: "it"}, smallPlan())
	for _, c := range []struct {
		fact      string
		got, want any
	}{
		{"name", r.Name, "it"},
		{"calls", r.Calls, 7},
		{"in time", r.SucceededInTime, 2},
		{"late", r.SucceededLate, 1},
		{"still open", r.StillOpen, 2},
		{"undecided are those that still had time", r.Undecided, 1},
		{"attempts", r.Attempts, 10},
		{"amplification during the fault: 7 requests ÷ 4 calls", r.Amplification, 1.75},
		{"orders charged twice or more", r.DoubleCharges, 2},
		{"charges too many", r.ExtraCharges, 3},
		{"charged, and the caller got an error", r.ChargedNotTold, 2},
		{"of those, told that nothing happened", r.ChargedAndDenied, 1},
		{"told charged, and not in the ledger", r.ToldNotCharged, 1},
		{"reasons add up", r.Reasons["503"] + r.Reasons["reset"] + r.Reasons["still open"], 4},
		{"retry tail", r.RetryTailS, 2.0},
		{"calls of the fault", r.Phases[1].Calls, 4},
		{"in time of the fault", r.Phases[1].SucceededInTime, 1},
		{"amplification afterwards", r.Phases[2].Amplification, 1.0},
		{"undecided afterwards", r.Phases[2].Undecided, 1},
		{"recovered", r.Recovered, false},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.fact, c.got, c.want)
		}
	}
}
