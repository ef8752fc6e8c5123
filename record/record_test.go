package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// full is an event of that kind with every field set, whether it means anything or
// not.
func full(k policy.Kind) gabion.Event {
	return gabion.Event{
		Kind: k, Class: policy.ClassTimeout, Reason: policy.AttemptTimeout, Effect: policy.UnknownEffect, Hedge: true, Slow: true,
		Attempt: 3, From: policy.StateObserveOnly, To: policy.StateOpen, Cause: breaker.Consecutive, At: -5, Due: -7, Until: 1 << 50, Took: time.Second,
		Wait: terms.ForSlot, Partition: "eu\n\"€\u2028", Dependency: "db", Operation: "charge", Call: 1<<64 - 1,
		Count: -1, Seq: 9, Left: -3, Hedges: 2, Code: "503",
		Numbers: &policy.Numbers{Calls: 20, Failures: 11, Slows: 3, Shape: policy.BudgetTokens, Level: -0.5, Bytes: 1 << 40},
	}
}

func events(t *testing.T, r io.Reader) (all []gabion.Event) {
	t.Helper()
	for l, err := range record.Read(r) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// meant is e without what means nothing for its kind.
func meant(e gabion.Event) gabion.Event {
	switch e.Kind {
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		e.From, e.To, e.Cause = 0, 0, 0
	case policy.KindAttemptSent:
		e.Effect, e.From, e.To, e.Cause = 0, 0, 0, 0
	case policy.KindReturned:
		e.From, e.To, e.Cause = 0, 0, 0
	case policy.KindBreakerMoved, policy.KindBreakerExceeded:
		e.Class, e.Effect = 0, 0
	default:
		e.Class, e.Effect, e.From, e.To, e.Cause = 0, 0, 0, 0, 0
	}
	return e
}

func TestEveryKindIsReadAsItWasWritten(t *testing.T) {
	var b bytes.Buffer
	w := record.NewWriter(&b)
	var want []gabion.Event
	for _, k := range policy.Kinds() {
		for _, e := range []gabion.Event{full(k), {Kind: k}} {
			w.Observe(context.Background(), e)
			want = append(want, meant(e))
		}
	}
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	if n := strings.Count(b.String(), "\n"); n != len(want)+2 { // a header and a dependency: of one without a name nothing is said
		t.Errorf("%d lines for %d events", n, len(want))
	}
	got := events(t, &b)
	if len(got) != len(want) {
		t.Fatalf("%d of %d events were read", len(got), len(want))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("read  %+v\nwrote %+v", got[i], want[i])
		}
	}
}

func TestABadLineNamesItsNumber(t *testing.T) {
	good := `{"at":1,"kind":"returned"}` + "\n"
	cases := map[string]struct {
		text string
		read int
		want string
	}{
		"no JSON":              {good + good + "what?\n" + good, 2, "line 3: "},
		"cut off":              {good + `{"at":1,"ki`, 1, "line 2: "},
		"an empty line":        {good + "\n" + good, 1, "line 2: "},
		"another object":       {good + `{"at":1}`, 1, "line 2: no kind"},
		"null":                 {"null\n", 0, "line 1: no kind"},
		"another type":         {good + `{"kind":"returned","attempt":"x"}`, 1, "line 2: "},
		"two on a line":        {`{"kind":"returned"} {"kind":"returned"}`, 0, "line 1: "},
		"a line without end":   {good + `{"kind":"` + strings.Repeat("x", 2<<20), 1, "line 2: "},
		"fine":                 {good + good, 2, ""},
		"nothing":              {"", 0, ""},
		"no newline at last":   {strings.TrimSpace(good), 1, ""},
		"fields of the future": {`{"kind":"returned","soon":1}`, 1, ""},
		"a kind of the future": {good + `{"kind":"predicted"}`, 1, `line 2: kind "predicted" is not known`},
		"no such reason":       {`{"kind":"returned","reason":"boredom"}`, 0, `line 1: reason "boredom" is not known`},
		"no such attempt":      {`{"kind":"returned","attempt":300}`, 0, "line 1: attempt 300"},
	}
	for name, c := range cases {
		read, failure := 0, error(nil)
		for _, err := range record.Read(strings.NewReader(c.text)) {
			if failure != nil {
				t.Fatalf("%s: it goes on after an error", name)
			}
			if err != nil {
				failure = err
				continue
			}
			read++
		}
		if read != c.read || (failure == nil) != (c.want == "") || failure != nil && !strings.HasPrefix(failure.Error(), c.want) {
			t.Errorf("%s: %d lines, then %v; want %d, then %q", name, read, failure, c.read, c.want)
		}
	}
}

func TestAReaderThatFailsIsReported(t *testing.T) {
	gone := errors.New("gone")
	broken := io.MultiReader(strings.NewReader("{\"kind\":\"returned\"}\n"), failing{gone})
	var last error
	for _, err := range record.Read(broken) {
		last = err
	}
	if !errors.Is(last, gone) {
		t.Errorf("got %v", last)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestReadingMayStopEarly(t *testing.T) {
	for range record.Read(strings.NewReader(strings.Repeat("{\"kind\":\"returned\"}\n", 3))) {
		break
	}
}

// A disk that was full and has room again: what is written afterwards is read, and
// the gap says how many events are missing.
func TestAWriterGoesOnAfterAFailure(t *testing.T) {
	for name, part := range map[string]int{"nothing of the line was written": 0, "a part of it was": 7} {
		t.Run(name, func(t *testing.T) {
			disk := &fills{part: part}
			w := record.NewWriter(disk)
			for i := range 10 {
				disk.full = i >= 3 && i < 7
				w.Observe(context.Background(), full(policy.KindReturned))
			}
			if !errors.Is(w.Err(), errFull) || w.Lost() != 4 {
				t.Errorf("%d lost, %v", w.Lost(), w.Err())
			}
			var kinds []string
			for _, l := range events(t, &disk.Buffer) {
				if kinds = append(kinds, l.Kind.String()); l.Kind == policy.KindEventsLost && l.Count != 4 {
					t.Errorf("%d are said to be lost", l.Count)
				}
			}
			if got := strings.Join(kinds, " "); got != "returned returned returned events_lost returned returned returned" {
				t.Errorf("read %s", got)
			}
		})
	}
}

var errFull = errors.New("no space left")

// fills is a disk that may be full, and then takes a part of the first line.
type fills struct {
	bytes.Buffer
	full bool
	part int
}

func (f *fills) Write(p []byte) (int, error) {
	if !f.full {
		return f.Buffer.Write(p)
	}
	n, _ := f.Buffer.Write(p[:f.part])
	f.part = 0
	return n, errFull
}

func TestAWriterIsSafeForConcurrentUse(t *testing.T) {
	var b bytes.Buffer
	w := record.NewWriter(&b)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				w.Observe(context.Background(), full(policy.KindAttemptSent))
			}
		})
	}
	wg.Wait()
	if n := len(events(t, &b)); n != 800 {
		t.Errorf("%d lines", n)
	}
}

// Whatever is read is written again as something that reads the same.
func FuzzRead(f *testing.F) {
	const head = `{"kind":"header","version":1}`
	f.Add([]byte(`{"at":1,"kind":"returned","took":5}` + "\n" + `{"kind":"x"}`))
	f.Add([]byte("null\n"))
	f.Add([]byte(`{"kind":"breaker_moved","from":"open","to":"closed","cause":"reset","at":-1,"partition":"\ud800"}`))
	f.Add([]byte(head + "\n" + `{"kind":"dependency","dependency":"a","zero":"2026-01-02T03:04:05Z"}` + "\n" + `{"kind":"returned","dependency":"a"}`))
	f.Add([]byte(`{"kind":"returned"}` + "\n" + `{"kind":"retu` + head + "\n" + `{"kind":"returned","call":1}` + "\n\x00\x00"))
	f.Add([]byte(`{"kind":"retu` + "\n" + head + "\n" + `{"kind":"events_lost","count":3}` + "\n" + `{"code":"` + "\xe2\x82"))
	f.Fuzz(func(t *testing.T, text []byte) {
		line, run, ended := 0, 1, false
		for e, err := range recording.Entries(bytes.NewReader(text)) {
			if ended {
				t.Fatal("it goes on after an error")
			}
			if err != nil {
				if ended = true; !strings.HasPrefix(err.Error(), "line ") {
					t.Fatalf("%v names no line", err)
				}
				continue
			}
			if e.Line <= line || e.Run < run || e.Run > e.Line {
				t.Fatalf("line %d of run %d follows line %d of run %d", e.Line, e.Run, line, run)
			}
			line, run = e.Line, e.Run
			e.Time(e.Event.At)
			if id, err := recording.ParseID(e.ID().String()); e.Event.Call != 0 && (err != nil || id != e.ID()) {
				t.Fatalf("%v became %v, %v", e.ID(), id, err)
			}
			var again bytes.Buffer
			record.NewWriter(&again).Observe(context.Background(), e.Event)
			if back := events(t, &again); len(back) != 1 || !reflect.DeepEqual(back[0], meant(e.Event)) {
				t.Fatalf("%+v became %+v", e.Event, back)
			}
		}
	})
}

func TestAMessageMayHaveManyAttempts(t *testing.T) {
	var b bytes.Buffer
	want := []gabion.Event{
		{Kind: policy.KindMessageDisposed, Dependency: "billing", Code: "retry/failed", Attempt: 255},
		{Kind: policy.KindKeyDecided, Dependency: "billing", Code: "again", Attempt: 255},
	}
	for _, e := range want {
		record.NewWriter(&b).Observe(context.Background(), e)
	}
	if got := events(t, &b); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v", got)
	}
}

// What a Writer keeps must not grow with every name that comes from traffic.
func TestAWriterOfManyNamesKeepsFew(t *testing.T) {
	w := record.NewWriter(io.Discard)
	kept := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := kept()
	for n := range 50_000 {
		w.Observe(context.Background(), gabion.Event{Kind: policy.KindReloaded, Dependency: fmt.Sprintf("hosts/%d.example", n), Seq: 1})
	}
	if grown := kept() - before; grown > 2<<20 {
		t.Errorf("it keeps %d KiB", grown>>10)
	}
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}
