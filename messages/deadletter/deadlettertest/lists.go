package deadlettertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

var listCases = []oneCase{
	{"lists have what was asked for, oldest first", deadletter.Options{}, lists},
	{"a list with many pages has each letter once while others come and go", deadletter.Options{}, pages},
	{"questions that can't be answered are errors", deadletter.Options{}, badQuestions},
	{"what is missing is not found", deadletter.Options{}, missing},
	{"a count is of what a list has", deadletter.Options{}, tallied},
	{"a list of several states has each letter once while they change", deadletter.Options{}, changing},
	{"stats count each group and all", deadletter.Options{}, counted},
	{"a context that has ended changes nothing", deadletter.Options{}, cancelled},
}

func lists(b *bench) {
	a := b.put("a", 3, func(n int, l *deadletter.Letter) { l.Source = fmt.Sprint("s", n%2) })
	b.pass(time.Hour)
	second := b.time()
	c := b.put("c", 2, func(n int, l *deadletter.Letter) { l.Reason = "permanent" })
	b.ok(b.Drop(b.Context(), c[1], "", ""))
	every := []deadletter.State{deadletter.Dropped, deadletter.Waiting, deadletter.Waiting, deadletter.Done, deadletter.Taken}
	b.wantAll(deadletter.Query{}, a[0], a[1], a[2], c[0])
	b.wantAll(deadletter.Query{States: every}, a[0], a[1], a[2], c[0], c[1])
	b.wantAll(deadletter.Query{States: []deadletter.State{deadletter.Dropped}}, c[1])
	b.wantAll(deadletter.Query{Group: "a"}, a...)
	b.wantAll(deadletter.Query{Group: "a", Source: "s0"}, a[0], a[2])
	b.wantAll(deadletter.Query{Source: "s1"}, a[1])
	b.wantAll(deadletter.Query{Reason: "permanent"}, c[0])
	b.wantAll(deadletter.Query{Group: "unused"})
	b.wantAll(deadletter.Query{IDs: []deadletter.ID{c[0], a[1], c[1], "nonsense"}}, a[1], c[0])
	b.wantAll(deadletter.Query{Before: second}, a...)
	b.wantAll(deadletter.Query{After: second}, c[0])
	b.wantAll(deadletter.Query{After: second.Add(time.Millisecond), States: every}, c[1])
	b.wantAll(deadletter.Query{Prefix: string(a[2][:20])}, a[2])
	b.wantAll(deadletter.Query{Prefix: string(a[2])}, a[2])
	b.wantAll(deadletter.Query{Prefix: string(c[1][:20])})
	early, late := time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) // nanoseconds can't say them
	b.wantAll(deadletter.Query{After: early, Before: late}, a[0], a[1], a[2], c[0])
	b.wantAll(deadletter.Query{Before: early})
	b.wantAll(deadletter.Query{After: late})
	groups, err := b.Groups(b.Context())
	b.ok(err)
	b.same("groups", groups, []string{"a", "c"})
}

// tallied compares what is counted with what is listed.
func tallied(b *bench) {
	a := b.put("a", 6, func(n int, l *deadletter.Letter) {
		l.Source = fmt.Sprint("s", n%2)
		if n > 2 {
			l.Reason = deadletter.Unknown
		}
	})
	b.ok(b.Resolve(b.Context(), a[3], deadletter.ResolvedAsFailed, "ann", ""))
	b.ok(b.Resolve(b.Context(), a[4], deadletter.ResolvedAsDone, "ann", ""))
	second := b.time()
	c := b.put("c", 2)
	b.ok(b.Drop(b.Context(), c[0], "", ""))
	b.order("c", 1)
	b.take("c", 1)
	every := []deadletter.State{0, 1, 2, 3}
	for _, q := range []deadletter.Query{
		{}, {States: every}, {Group: "a"}, {Group: "a", States: every}, {Group: "a", Reason: deadletter.Unknown}, {Reason: deadletter.Unknown, States: every},
		{Source: "s0"}, {IDs: []deadletter.ID{a[0], c[1]}, States: every}, {Prefix: string(a[5][:20])}, {Before: second, States: every}, {After: second, States: every},
		{Group: "unused"}, {Source: "nowhere"}, {States: []deadletter.State{deadletter.Taken, deadletter.Done}},
	} {
		var want []deadletter.Tally
		for _, id := range b.all(q, 0) {
			l := b.get(id)
			r := deadletter.Stored{Letter: l}
			want = deadletter.AddTally(want, deadletter.Tally{Group: l.Group, State: l.State, Reason: l.Reason, Unresolved: r.Held(), Letters: 1})
		}
		got, err := b.Count(b.Context(), q)
		b.ok(err)
		b.same(fmt.Sprintf("count of %+v", q), got, want)
	}
	got, err := b.Count(b.Context(), deadletter.Query{Group: "a"})
	b.ok(err)
	b.same("counted", got, []deadletter.Tally{{Group: "a", Reason: "attempts_exhausted", Letters: 3}, {Group: "a", Reason: deadletter.Unknown, Letters: 1}, {Group: "a", Reason: deadletter.Unknown, Unresolved: true, Letters: 1}})
}

// changing lists letters while each goes from one state into another and back.
func changing(b *bench) {
	want := b.put("g", 20)
	every := deadletter.Query{Group: "g", States: []deadletter.State{0, 1, 2, 3}}
	b.order("g", 1e9)
	b.pass(time.Second)
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	for _, s := range b.both() {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				taken, _, err := s.Take(b.Context(), "g", 20, time.Minute)
				for _, l := range taken {
					err = errors.Join(err, s.Settle(b.Context(), l, deadletter.Verdict{State: deadletter.Waiting}))
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for range 400 {
		p, err := b.List(b.Context(), every, "", 0)
		b.ok(err)
		var got []deadletter.ID
		for _, l := range p.Letters {
			got = append(got, l.ID)
		}
		if !slices.Equal(got, want) {
			b.Fatalf("%d letters, want %d, each once", len(got), len(want))
		}
	}
}

func pages(b *bench) {
	want := b.put("g", 90)
	var got []deadletter.ID
	for from, n := "", 0; n == 0 || from != ""; n++ {
		p, err := b.List(b.Context(), deadletter.Query{Group: "g"}, from, 40)
		b.ok(err)
		for _, l := range p.Letters {
			got = append(got, l.ID)
		}
		from = p.Next
		if n == 0 { // one before, the last of the page, and a new one
			b.ok(b.Drop(b.Context(), want[5], "", ""))
			b.ok(b.Drop(b.Context(), want[39], "", ""))
			b.ok(b.Put(b.Context(), letter("g", 1000)))
		}
	}
	if want = append(want, letter("g", 1000).ID); !slices.Equal(got, want) {
		b.Errorf("%d letters, want %d, each once", len(got), len(want))
	}
}

func badQuestions(b *bench) {
	b.put("g", 3)
	for _, from := range []string{"x", strings.Repeat("0", 47), strings.Repeat("z", 48), strings.Repeat("f", 100_000), "'; DROP TABLE letters; --", "+" + strings.Repeat("0", 47), strings.Repeat("F", 48)} {
		if _, err := b.List(b.Context(), deadletter.Query{}, from, 0); err == nil {
			b.Errorf("page %.50q was taken", from)
		}
	}
	for _, q := range []deadletter.Query{{IDs: make([]deadletter.ID, 1001)}, {Prefix: "%"}, {Prefix: strings.Repeat("a", 33)}, {States: []deadletter.State{77}}} {
		if _, err := b.List(b.Context(), q, "", 0); err == nil {
			b.Errorf("query %+v was taken", q)
		}
		if _, err := b.Count(b.Context(), q); err == nil {
			b.Errorf("a count of %+v was taken", q)
		}
		if _, err := b.Order(b.Context(), q, deadletter.Drive{Group: "g", Rate: 1}); err == nil {
			b.Errorf("an order of %+v was taken", q)
		}
	}
	for _, limit := range []int{-1, 1001} {
		if _, err := b.List(b.Context(), deadletter.Query{}, "", limit); err == nil {
			b.Errorf("a page of %d was taken", limit)
		}
	}
	for _, c := range []struct {
		group string
		n     int
		lease time.Duration
	}{{"", 1, time.Second}, {"g", 0, time.Second}, {"g", -1, time.Second}, {"g", 1, 0}, {"g", 1001, 1}} {
		if _, _, err := b.Take(b.Context(), c.group, c.n, c.lease); err == nil {
			b.Errorf("taking %+v was allowed", c)
		}
	}
}

func missing(b *bench) {
	id := letter("g", 1).ID
	_, err := b.Get(b.Context(), id)
	b.is(err, deadletter.ErrNotFound)
	_, err = b.Get(b.Context(), "no id\x00")
	b.is(err, deadletter.ErrNotFound)
	b.is(b.Drop(b.Context(), id, "", ""), deadletter.ErrNotFound)
	b.is(b.Resolve(b.Context(), id, deadletter.ResolvedAsDone, "", ""), deadletter.ErrNotFound)
	b.is(b.Stop(b.Context(), "no\x00drive", "", ""), deadletter.ErrNotFound)
	b.is(b.Settle(b.Context(), deadletter.Lease{Letter: deadletter.Letter{ID: id}, Token: 1}, done), deadletter.ErrLost)
	b.is(b.Extend(b.Context(), deadletter.Lease{Letter: deadletter.Letter{ID: id}, Token: 1}, time.Second), deadletter.ErrLost)
	taken, again, err := b.Take(b.Context(), "unused", 1, time.Second)
	if len(taken) != 0 || again != 0 || err != nil {
		b.Errorf("%v, %v, %v", taken, again, err)
	}
	b.ok(b.Forget(b.Context(), id))
	groups, err := b.Groups(b.Context())
	if len(groups) != 0 || err != nil {
		b.Errorf("groups %v, %v", groups, err)
	}
}

func counted(b *bench) {
	b.same("nothing", b.stats("").Letters, 0)
	a := b.put("a", 3)
	b.pass(time.Minute)
	c := b.put("c", 2, unknown)
	b.ok(b.Drop(b.Context(), c[0], "", ""))
	b.order("a", 1)
	b.take("a", 1)
	for group, want := range map[string]deadletter.Stats{
		"": {Letters: 4, ByState: map[deadletter.State]int{deadletter.Waiting: 3, deadletter.Taken: 1, deadletter.Dropped: 1},
			ByReason: map[string]int{"attempts_exhausted": 3, deadletter.Unknown: 1}, Unresolved: 1, Put: 5, Oldest: b.get(a[1]).Kept, Newest: b.get(c[1]).Kept},
		"a": {Letters: 3, ByState: map[deadletter.State]int{deadletter.Waiting: 2, deadletter.Taken: 1}, ByReason: map[string]int{"attempts_exhausted": 3}, Put: 3, Oldest: b.get(a[1]).Kept, Newest: b.get(a[2]).Kept},
		"c": {Letters: 1, ByState: map[deadletter.State]int{deadletter.Waiting: 1, deadletter.Dropped: 1}, ByReason: map[string]int{deadletter.Unknown: 1}, Unresolved: 1, Put: 2, Oldest: b.get(c[1]).Kept, Newest: b.get(c[1]).Kept},
	} {
		got := b.stats(group)
		if got.Bytes <= 0 {
			b.Errorf("%d bytes", got.Bytes)
		}
		got.Bytes = 0
		b.same("stats of "+group, got, want)
	}
}

func cancelled(b *bench) {
	id := b.put("g", 2)[0]
	d := b.order("g", 100)
	taken, _ := b.take("g", 1)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	_, getErr := b.Get(ctx, id)
	_, countErr := b.Count(ctx, deadletter.Query{})
	_, listErr := b.List(ctx, deadletter.Query{}, "", 0)
	_, orderErr := b.Order(ctx, deadletter.Query{}, deadletter.Drive{Group: "g", Rate: 1})
	_, drivesErr := b.Drives(ctx, "")
	_, _, takeErr := b.Take(ctx, "g", 1, time.Minute)
	_, groupsErr := b.Groups(ctx)
	_, statsErr := b.Stats(ctx, "")
	_, sweepErr := b.Sweep(ctx)
	for n, err := range []error{
		b.Fail(ctx, id, deadletter.Failure{At: begun}), b.Forget(ctx, id), b.Put(ctx, letter("g", 7)), getErr, listErr, countErr, orderErr, drivesErr,
		b.Stop(ctx, d.ID, "", ""), takeErr, b.Extend(ctx, taken[0], time.Hour), b.Settle(ctx, taken[0], done),
		b.Resolve(ctx, id, deadletter.ResolvedAsDone, "", ""), b.Drop(ctx, id, "", ""), groupsErr, statsErr, sweepErr,
	} {
		if !errors.Is(err, context.Canceled) {
			b.Errorf("method %d: %v", n, err)
		}
	}
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Driving, Total: 2, Left: 2})
	b.wantState(id, deadletter.Taken)
	if s := b.stats(""); s.Put != 2 {
		b.Errorf("%+v", s)
	}
}
