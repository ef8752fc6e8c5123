package deadlettertest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
)

var letterCases = []oneCase{
	{"a letter comes back as it was put away", deadletter.Options{}, comesBack},
	{"a letter without anything but a group comes back", deadletter.Options{}, bareLetter},
	{"a letter that is put away twice is one", deadletter.Options{}, putTwice},
	{"one that was done or dropped waits again", deadletter.Options{}, putAnew},
	{"failures are written as they happen, and are in the letter", deadletter.Options{}, failures},
	{"of many failures the first and the newest stay", deadletter.Options{}, manyFailures},
	{"what a done message failed before is forgotten", deadletter.Options{}, forgotten},
	{"letters that can't be one are refused", deadletter.Options{}, notLetters},
}

func comesBack(b *bench) {
	l := letter("g", 1)
	l.Payload = []byte("\x00\xff\xfe'\"; DROP TABLE letters; --\x00")
	l.Key, l.Position, l.Order, l.Source = "\x00key\xff", "\xf0\x28", "order\x00", "a\xffb"
	l.Headers = message.Headers{{Name: "A", Value: "\x00\xff"}, {Name: "a", Value: ""}, {Name: "", Value: "x"}, {Name: "A", Value: "again"}}
	l.Failures = []deadletter.Failure{{At: begun.Add(-time.Second), Took: 3 * time.Millisecond, Attempt: 3, Class: "transient", Reason: "failed", Message: "no\x00 \xff luck"}}
	b.ok(b.Put(b.Context(), l))
	want := l
	want.Failures = []deadletter.Failure{l.Failures[0]}
	want.Failures[0].Message = "no\uFFFD \uFFFD luck"
	want.State, want.Since, want.Kept = deadletter.Waiting, b.time(), b.time()
	got := b.get(l.ID)
	b.same("payload", string(got.Payload), string(want.Payload))
	b.same("headers", got.Headers, want.Headers)
	b.same("failures", got.Failures, want.Failures)
	got.Payload, want.Payload, got.Headers, want.Headers, got.Failures, want.Failures = nil, nil, nil, nil, nil, nil
	b.same("letter", fields(got), fields(want))
}

// fields shows all fields of a letter: its own format hides some.
func fields(l deadletter.Letter) string {
	type open deadletter.Letter
	return fmt.Sprintf("%+v", open(l))
}

func bareLetter(b *bench) {
	l := deadletter.Letter{ID: deadletter.LetterID("g", "", nil), Group: "g"}
	b.ok(b.Put(b.Context(), l))
	got := b.get(l.ID)
	if len(got.Payload) != 0 || len(got.Headers) != 0 || len(got.Failures) != 0 || got.Key != "" || !got.First.IsZero() || !got.Last.IsZero() {
		b.Errorf("%s", fields(got))
	}
	b.wantAll(deadletter.Query{}, l.ID)
}

func putTwice(b *bench) {
	l := letter("g", 1)
	l.Failures = []deadletter.Failure{{At: begun, Attempt: 3, Message: "one"}}
	b.ok(b.Put(b.Context(), l))
	first := b.get(l.ID)
	b.pass(time.Second)
	b.ok(b.Put(b.Context(), l))
	b.same("after the same", fields(b.get(l.ID)), fields(first))
	l.Reason, l.Attempts, l.Last = "permanent", 4, begun.Add(time.Minute)
	l.Failures = []deadletter.Failure{{At: begun.Add(time.Minute), Attempt: 4, Message: "two"}}
	b.ok(b.Put(b.Context(), l))
	got := b.get(l.ID)
	if got.Reason != "permanent" || got.Attempts != 4 || len(got.Failures) != 2 || !got.Last.Equal(l.Last) || !got.Kept.Equal(first.Kept) {
		b.Errorf("brought up to date: %s", fields(got))
	}
	b.same("put", b.stats("").Put, int64(1))
	b.wantAll(deadletter.Query{}, l.ID)
}

func putAnew(b *bench) {
	ids := b.put("g", 2)
	b.ok(b.Drop(b.Context(), ids[0], "ann", "no"))
	d := b.order("g", 1000)
	taken, _ := b.take("g", 5)
	b.wantTaken(taken, ids[1])
	b.ok(b.Settle(b.Context(), taken[0], done))
	b.ended("g")
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 1, Done: 1})
	b.pass(time.Minute)
	for i, id := range ids {
		b.ok(b.Put(b.Context(), letter("g", i)))
		got := b.get(id)
		if got.State != deadletter.Waiting || !got.Kept.Equal(b.time()) || string(got.Payload) != fmt.Sprintf("payload %d of g", i) {
			b.Errorf("%s", fields(got))
		}
	}
	if s := b.stats("g"); s.Put != 4 || s.Letters != 2 {
		b.Errorf("%+v", s)
	}
}

func failures(b *bench) {
	l := letter("g", 1)
	l.First, l.Last, l.Attempts = time.Time{}, time.Time{}, 0
	for n := range 3 {
		f := deadletter.Failure{At: begun.Add(time.Duration(n) * time.Minute), Took: time.Second, Attempt: n + 1, Class: "transient", Reason: "failed", Message: fmt.Sprint("no ", n)}
		b.ok(b.Fail(b.Context(), l.ID, f))
		b.ok(b.Fail(b.Context(), l.ID, f)) // its answer was lost
	}
	if _, err := b.Get(b.Context(), l.ID); !errors.Is(err, deadletter.ErrNotFound) {
		b.Errorf("before it is a letter: %v", err)
	}
	b.wantAll(deadletter.Query{})
	b.ok(b.Put(b.Context(), l))
	got := b.get(l.ID)
	if len(got.Failures) != 3 || got.Failures[1].Message != "no 1" || !got.First.Equal(begun) || !got.Last.Equal(begun.Add(2*time.Minute)) || got.Attempts != 3 {
		b.Errorf("%s", fields(got))
	}
	b.ok(b.Fail(b.Context(), l.ID, deadletter.Failure{At: begun.Add(time.Hour), Attempt: 4, Message: "late"}))
	b.ok(b.Forget(b.Context(), l.ID)) // takes nothing from a letter
	if got := b.get(l.ID); len(got.Failures) != 4 || got.Attempts != 4 {
		b.Errorf("one more: %s", fields(got))
	}
	p, err := b.List(b.Context(), deadletter.Query{}, "", 0)
	b.ok(err)
	if f := p.Letters[0].Failures; len(f) != 1 || f[0].Message != "late" || p.Letters[0].Payload != nil {
		b.Errorf("in a list: %+v", f)
	}
}

func manyFailures(b *bench) {
	l := letter("g", 1)
	for n := range 40 {
		b.ok(b.Fail(b.Context(), l.ID, deadletter.Failure{At: begun.Add(time.Duration(n) * time.Second), Message: strings.Repeat("ä", 4000)}))
	}
	b.ok(b.Put(b.Context(), l))
	got := b.get(l.ID).Failures
	if len(got) != deadletter.MaxFailures || !got[0].At.Equal(begun) || !got[1].At.Equal(begun.Add(9*time.Second)) || !got[31].At.Equal(begun.Add(39*time.Second)) {
		b.Errorf("%d failures, %v", len(got), got)
	}
	for _, f := range got {
		if len(f.Message) > deadletter.MaxMessage || !strings.HasSuffix(f.Message, "ä…") {
			b.Errorf("a text of %d bytes, %q", len(f.Message), f.Message[len(f.Message)-8:])
		}
	}
}

func forgotten(b *bench) {
	l := letter("g", 1)
	b.ok(b.Fail(b.Context(), l.ID, deadletter.Failure{At: begun, Message: "before"}))
	b.ok(b.Forget(b.Context(), l.ID))
	b.ok(b.Forget(b.Context(), l.ID))
	b.ok(b.Put(b.Context(), l))
	if got := b.get(l.ID); len(got.Failures) != 0 {
		b.Errorf("%v", got.Failures)
	}
}

func notLetters(b *bench) {
	for _, id := range []deadletter.ID{"", "1", deadletter.ID(strings.Repeat("A", 32)), deadletter.ID(strings.Repeat("g", 32)), deadletter.ID(strings.Repeat("0", 33))} {
		if err := b.Put(b.Context(), deadletter.Letter{ID: id, Group: "g"}); err == nil {
			b.Errorf("ID %q was taken", id)
		}
		if err := b.Fail(b.Context(), id, deadletter.Failure{}); err == nil {
			b.Errorf("a failure of %q was taken", id)
		}
	}
	if err := b.Put(b.Context(), deadletter.Letter{ID: letter("g", 1).ID}); err == nil {
		b.Error("a letter without a group was taken")
	}
	b.wantAll(deadletter.Query{})
}
