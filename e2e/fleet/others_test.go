package fleet

import (
	"os"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
)

// Twenty processes that call seldom, and all that they send fails. The floor of the budget is of all of them: what they send
// again is bounded by the ratio of their calls and one floor, with a window and a lease more for shares that move.
func TestReSendsOfAFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("long: twenty processes for ten seconds")
	}
	server := testservers.StartRedis(t, "--appendonly", "yes")
	s := newStage(t, "redis://"+server.Addr, wayResends, 20, ordinary)
	s.must(s.crew.evenly(40))
	time.Sleep(2 * ordinary) // until all have heard of each other
	s.witness.failing.Store(true)
	time.Sleep(resendWindow) // until no success is left in a window
	_, err := s.crew.ask()
	s.must(err)
	from := s.witness.now()
	time.Sleep(8 * time.Second)
	span := s.witness.now() - from
	all := len(s.witness.between(from, s.witness.now()))
	sum, err := s.crew.ask()
	s.must(err)
	again := float64(all) - float64(sum.Wanted)
	most := resendRatio*float64(sum.Wanted) + resendFloor*(span+resendWindow+ordinary).Seconds()
	s.Logf("%d calls, %.0f re-sends; at most %.0f", sum.Wanted, again, most)
	if again > most || again <= 0 {
		t.Errorf("%d calls and %.0f re-sends, want some and at most %.0f", sum.Wanted, again, most)
	}
}

// All that one of twenty processes sends fails. The others lose no more than one call in a hundred.
func TestAPoisonedProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("long: twenty processes for ten seconds")
	}
	server := testservers.StartRedis(t, "--appendonly", "yes")
	s := newStage(t, "redis://"+server.Addr, wayGuarded, 20, ordinary)
	s.must(s.crew.evenly(0.4 * limit))
	time.Sleep(2 * ordinary)
	poisoned := s.crew.members[0].number
	s.witness.poisoned.Store(int64(poisoned) + 1)
	time.Sleep(2 * time.Second) // until its breaker is open and was reported
	_, err := s.crew.ask()
	s.must(err)
	time.Sleep(2 * ordinary)
	all, err := s.crew.askEach()
	s.must(err)
	var wanted, lost, failed int64
	for _, told := range all {
		if told.Process == poisoned {
			failed = told.Wanted - told.Sent
			continue
		}
		wanted += told.Wanted
		lost += told.Wanted - told.Sent
		for text, n := range told.Failures {
			s.Logf("process %d: %d %s", told.Process, n, text)
		}
	}
	s.Logf("of the poisoned process %d calls failed, and of %d calls of the others %d", failed, wanted, lost)
	if failed == 0 || float64(lost) > 0.01*float64(wanted) {
		t.Errorf("of the poisoned process %d calls failed, and of %d calls of the others %d", failed, wanted, lost)
	}
}

// gabion and redis_rate at the same time, on one Redis, with half of the processes each.
func TestMeasureBeside(t *testing.T) {
	if os.Getenv("GABION_MEASURE") == "" {
		t.Skip("set GABION_MEASURE=1: it takes a minute")
	}
	server := testservers.StartRedis(t, "--appendonly", "yes")
	lease := newStage(t, "redis://"+server.Addr, wayGabion, 25, 10*time.Second)
	trip := newStage(t, "redis://"+server.Addr, wayRate, 25, 10*time.Second)
	for _, part := range []float64{0.7, 1.5} {
		lease.must(lease.crew.evenly(part * limit))
		trip.must(trip.crew.evenly(part * limit))
		time.Sleep(10 * time.Second)
		lease.during("gabion", 0, 10*time.Second, nothing)
		trip.during("redis_rate", 0, 10*time.Second, nothing)
	}
	lease.all()
	trip.all()
}

// GABION_MEASURE=short takes a quarter of a minute for each while, and any other value a minute: what the slowest calls take while the
// store is gone, beside what they take before and after.
func TestMeasureTheSlowestWithoutAStore(t *testing.T) {
	span := time.Minute
	switch os.Getenv("GABION_MEASURE") {
	case "":
		t.Skip("set GABION_MEASURE=1: it takes four minutes")
	case "short":
		span /= 4
	}
	server := testservers.StartRedis(t, "--appendonly", "yes")
	s := newStage(t, "redis://"+server.Addr, wayGabion, 50, 10*time.Second)
	s.must(s.crew.evenly(0.7 * limit))
	s.settle()
	before := s.during("seven tenths of the limit", 15*time.Second, span, nothing)
	server.Kill()
	gone := s.during("and the store is gone", 0, span, nothing)
	server.Restart()
	after := s.during("and is back", 15*time.Second, span, nothing)
	s.all()
	s.Logf("p99.9 of a call is %v while the store is gone, %v before and %v after", gone.p999, before.p999, after.p999)
	if most := max(before.p999, after.p999); span == time.Minute && float64(gone.p999) > 1.01*float64(most) {
		t.Errorf("p99.9 is %v while the store is gone, and %v at most with it", gone.p999, most)
	}
}
