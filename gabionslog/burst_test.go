package gabionslog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// told is what the tests want to know of a line.
type told struct {
	Msg        string
	Dependency string
	Reason     string
	Count      int
	Since      time.Time
	For        time.Duration
	First      string `json:"first_reason"`
	Unknown    int    `json:"effect_unknown"`
	Reasons    map[string]int
	Last       struct{ Partition, From, To string }
}

// notebook collects lines. Safe for concurrent use.
type notebook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notebook) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notebook) lines(t *testing.T) (all []told) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for line := range strings.Lines(n.text.String()) {
		var l told
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func observer(n *notebook) *gabionslog.Observer {
	return &gabionslog.Observer{Logger: slog.New(slog.NewJSONHandler(n, nil))}
}

// An outage of 15 s at 100 calls a second was 1,450 lines.
func TestAnOutageIsAFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		d := gabion.New("bank", policy.Policy{Breaker: policy.Breaker{Open: time.Hour}}, gabion.WithObserver(observer(&n)))
		const calls = 1500
		for range calls {
			d.Run(t.Context(), func(context.Context) error { return classify.Transient(errors.New("down")) })
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute) // it is quiet again
		synctest.Wait()
		lines := n.lines(t)
		failed, reasons, moved := 0, map[string]int{}, 0
		for _, l := range lines {
			switch l.Msg {
			case "gabion: breaker_moved":
				moved++
			case "gabion: returned":
				failed++
				reasons[l.Reason]++
			case "gabion: more calls failed":
				failed += l.Count
				for r, k := range l.Reasons {
					reasons[r] += k
				}
				if len(l.Reasons) == 0 {
					reasons[l.First] += l.Count
				}
			}
			if l.Dependency != "bank" {
				t.Errorf("a line about %q", l.Dependency)
			}
		}
		if len(lines) > 6 || // two levels: calls that may have happened, and calls that were refused
			failed != calls || moved != 1 || reasons["not_safe"]+reasons["breaker_open"] != calls || reasons["not_safe"] == 0 {
			t.Errorf("%d lines about %d calls, %v, %d moves: %+v", len(lines), failed, reasons, moved, lines)
		}
		second := lines[slices.IndexFunc(lines, func(l told) bool { return l.Count > 0 })]
		if second.First != "not_safe" || second.Unknown != reasons["not_safe"]-1 || second.For < 9*time.Second || second.For > 10*time.Second || second.Since.IsZero() {
			t.Errorf("the first sum says %+v", second)
		}
	})
}

func returned(dependency string, why gabion.Reason) gabion.Event {
	return gabion.Event{Kind: policy.KindReturned, Dependency: dependency, Reason: why}
}

// One failed call now and then is a line each, with nothing to follow.
func TestFailuresThatAreFarApartAreALineEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		o := observer(&n)
		for range 3 {
			o.Observe(t.Context(), returned("bank", policy.NotSafe))
			time.Sleep(11 * time.Second)
		}
		if lines := n.lines(t); len(lines) != 3 || lines[2].Reason != "not_safe" {
			t.Errorf("%+v", lines)
		}
	})
}

func TestWhatIsCounted(t *testing.T) {
	moved := gabion.Event{Kind: policy.KindBreakerMoved, Dependency: "bank", From: breaker.Closed, To: breaker.Open}
	for _, c := range []struct {
		fact  string
		event gabion.Event
		times int
		lines []int // what each line stands for
	}{
		{"fallbacks", gabion.Event{Kind: policy.KindFellBack, Dependency: "bank", Reason: policy.BreakerOpen}, 100, []int{1, 99}},
		{"broken bodies", gabion.Event{Kind: policy.KindBodyFailed, Dependency: "bank"}, 100, []int{1, 99}},
		{"requests for time", gabion.Event{Kind: policy.KindPaceSet, Dependency: "bank"}, 100, []int{1, 99}},
		{"lost events", gabion.Event{Kind: policy.KindEventsLost, Dependency: "bank"}, 100, []int{1, 99}},
		{"letters that a full store removes", gabion.Event{Kind: policy.KindLettersLost, Dependency: "bank", Count: 1}, 100, []int{1, 99}},
		{"moves of a breaker are not", moved, 3, []int{1, 1, 1}},
		{"but those of a thousand partitions are", moved, 1000, append(slicesOf(1, 20), 980)},
		{"cancelled calls are no failure", returned("bank", policy.Canceled), 100, nil},
		{"nor is success", returned("bank", policy.None), 100, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var n notebook
			o := observer(&n)
			for range c.times {
				o.Observe(t.Context(), c.event)
			}
			o.Flush()
			var got []int
			for _, l := range n.lines(t) {
				got = append(got, max(l.Count, 1))
			}
			if fmt.Sprint(got) != fmt.Sprint(c.lines) {
				t.Errorf("%s: lines stand for %v, want %v", c.fact, got, c.lines)
			}
		})
	}
}

// While a service is down, its breaker probes and opens again, many times in a few
// seconds. What is counted must not hide that it has closed since.
func TestTheSumOfMovesEndsWithTheStateThatHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		o := observer(&n)
		move := func(from, to breaker.State) {
			o.Observe(t.Context(), gabion.Event{Kind: policy.KindBreakerMoved, Dependency: "bank", Partition: "api.example.com", From: from, To: to})
		}
		move(breaker.Closed, breaker.Open)
		for range 20 {
			move(breaker.Open, breaker.HalfOpen)
			move(breaker.HalfOpen, breaker.Open)
		}
		move(breaker.Open, breaker.HalfOpen)
		move(breaker.HalfOpen, breaker.Closed)
		time.Sleep(time.Minute)
		synctest.Wait()
		lines := n.lines(t)
		last := lines[len(lines)-1]
		if last.Msg != "gabion: more of breaker_moved" || last.Count != 23 || last.Last.To != "closed" || last.Last.Partition != "api.example.com" {
			t.Errorf("the log ends with %+v", last)
		}
		o.Observe(t.Context(), returned("bank", policy.NotSafe))
		o.Observe(t.Context(), returned("bank", policy.NotSafe))
		o.Flush()
		if lines = n.lines(t); lines[len(lines)-1].Last.To != "" {
			t.Errorf("calls have no state, and the log says %+v", lines[len(lines)-1])
		}
	})
}

func slicesOf(v, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// Names that others give make no memory and no lines without bound.
func TestBurstsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notebook
		o := observer(&n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const names = 20_000
		for i := range names {
			o.Observe(t.Context(), returned(fmt.Sprint("host-", i), policy.NotSafe))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		o.Flush()
		lines := n.lines(t)
		last := lines[len(lines)-1]
		if len(lines) > 1002 || last.Dependency != "others" || last.Count+len(lines)-1 != names {
			t.Errorf("%d lines, the last is %+v", len(lines), last)
		}
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 4<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
	})
}

// Every event is logged once, from any goroutine, whenever it is flushed.
func TestNothingIsLostBetweenGoroutines(t *testing.T) {
	var n notebook
	o := observer(&n)
	o.Every = time.Millisecond
	const each = 2000
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range each {
				o.Observe(context.Background(), returned("bank", policy.NotSafe))
				if i%500 == 0 {
					o.Flush()
				}
			}
		})
	}
	all.Wait()
	o.Flush()
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() { // a timer may be telling still
		sum := 0
		for _, l := range n.lines(t) {
			sum += max(l.Count, 1)
		}
		if sum == 4*each {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events are told of %d", sum, 4*each)
		}
	}
}
