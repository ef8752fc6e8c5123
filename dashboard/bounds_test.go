package dashboard

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	breakers "github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

func TestErrorsAreKeptByKind(t *testing.T) {
	l := newLog()
	for n := range 100 {
		l.calls(2, policy.ClassServer, fmt.Sprint(500+n), policy.AttemptsExhausted, time.Millisecond)
		l.now += time.Millisecond
	}
	if d := l.detail(); len(d.Errors) != keptErrors || d.Errors[0].Code != "599" || d.Errors[0].Count != 2 || len(d.Row.Errors) != shownErrors {
		t.Errorf("%d errors: %+v", len(d.Errors), d.Errors)
	}
}

// Names that come from traffic can't fill the memory.
func TestNamesAreBounded(t *testing.T) {
	l := newLog()
	long := strings.Repeat("x", 10_000)
	for n := range 3 * maxTiles {
		l.tell(policy.Event{Kind: policy.KindReturned, Dependency: fmt.Sprintf("host-%d-%s", n, long)})
	}
	tiles := *l.c.tiles.Load()
	if len(tiles) != maxTiles+1 || tiles[terms.Overflow] == nil {
		t.Errorf("%d tiles", len(tiles))
	}
	l.now += 11 * time.Minute
	l.tell(policy.Event{Kind: policy.KindReturned, Dependency: "fresh"})
	if tiles := *l.c.tiles.Load(); tiles["fresh"] == nil || len(tiles) != 1 {
		t.Errorf("after a while of nothing there are %d tiles", len(tiles))
	}
}

// The page of 1,000 dependencies with 1,000 partitions each takes a bounded memory, whatever
// happens to all of them.
func TestMemoryIsBounded(t *testing.T) {
	dependencies, partitions := 1000, 1000
	if testrace.Enabled {
		partitions = 50 // it takes ten times as long, and would see no more
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := newLog()
	var names, hosts [1000]string
	for n := range names {
		names[n], hosts[n] = fmt.Sprintf("dependency-%d", n), fmt.Sprintf("host-%d.example", n)
	}
	numbers := &policy.Numbers{Calls: 10, Failures: 10, Rule: 0.5}
	for d := range dependencies {
		for p := range partitions {
			e := moved(policy.StateClosed, policy.StateOpen, breakers.FailureRate, numbers)
			e.Dependency, e.Partition = names[d], hosts[p]
			l.tell(e)
		}
		for n := range 40 { // every kind of failure and ending there is
			class, reason := policy.Class(n%13), policy.Reason(n%28)
			l.call++
			l.tell(policy.Event{Kind: policy.KindAttemptSent, Dependency: names[d], Call: l.call, Attempt: 1})
			l.tell(policy.Event{Kind: policy.KindAttemptSettled, Dependency: names[d], Call: l.call, Attempt: 1, Class: class, Code: fmt.Sprint(n)})
			l.tell(policy.Event{Kind: policy.KindAttemptRefused, Dependency: names[d], Call: l.call, Attempt: 2, Reason: reason, Numbers: numbers})
			l.tell(policy.Event{Kind: policy.KindReturned, Dependency: names[d], Call: l.call, Attempt: 1, Reason: reason})
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	took := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d MB for the page, %d bytes for each dependency", took>>20, took/int64(dependencies))
	if took > 64<<20 {
		t.Errorf("the page takes %d MB", took>>20)
	}
	runtime.KeepAlive(l)
}

func TestPartitionsAreCountedPastTheBound(t *testing.T) {
	l := newLog()
	for n := range 100 {
		e := moved(policy.StateClosed, policy.StateOpen, breakers.Consecutive, &policy.Numbers{Rule: 3})
		e.Partition = fmt.Sprintf("host-%d", n)
		l.tell(e)
	}
	d := l.detail()
	if len(d.Partitions)+d.Hidden != 100 || len(d.Partitions) > keptPartitions+1 {
		t.Errorf("%d shown, %d hidden", len(d.Partitions), d.Hidden)
	}
	e := moved(policy.StateHalfOpen, policy.StateClosed, breakers.ProbesPassed, nil)
	e.Partition = "host-0"
	l.tell(e)
	if n := len(l.detail().Partitions); n != len(d.Partitions)-1 {
		t.Errorf("a partition that closed is still listed")
	}
}

// Every word that policy has fits what a tile keeps, and every cause has words.
func TestVocabularyFits(t *testing.T) {
	if n := len(policy.Reasons()); n > maxReasons {
		t.Errorf("%d reasons, room for %d", n, maxReasons)
	}
	if policy.Class(maxClasses).String() != "class(unknown)" {
		t.Errorf("there are more than %d classes", maxClasses)
	}
	if policy.BreakerState(numStates).String() != "state(unknown)" {
		t.Errorf("there are more than %d states", numStates)
	}
	for c := policy.BreakerCause(0); c.String() != "cause(unknown)"; c++ {
		if whyMoved(&policy.Event{Cause: c, Numbers: &policy.Numbers{Calls: 4, Failures: 4, Rule: 1}}) == "" {
			t.Errorf("the page has no words for %s", c)
		}
	}
}
