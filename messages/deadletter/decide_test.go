package deadletter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var start = time.Unix(1e9, 0).UTC()

// What each verb does to a letter in each state.
func TestStatesAreATable(t *testing.T) {
	later := start.Add(time.Hour)
	in := func(s State) Stored {
		return Stored{Letter: Letter{ID: "x", Group: "g", State: s, Reason: Unknown, Resolved: ResolvedAsFailed}, Token: 7, Until: start.Add(time.Minute)}
	}
	id := LetterID("g", "", nil)
	verbs := []struct {
		name string
		do   func(Stored) (Stored, error)
	}{
		{"put", func(r Stored) (Stored, error) { return r.Put(Letter{ID: id, Group: "g"}, nil, later) }},
		{"lapse", func(r Stored) (Stored, error) {
			lapsed := r.Lapsed(later)
			r, _ = r.Lost(later)
			return r, refused(lapsed)
		}},
		{"lapse in time", func(r Stored) (Stored, error) { return r, refused(r.Lapsed(start)) }},
		{"done", func(r Stored) (Stored, error) {
			r, _, err := r.Settle(7, Verdict{State: Done}, later)
			return r, err
		}},
		{"failed", func(r Stored) (Stored, error) {
			r, _, err := r.Settle(7, Verdict{State: Waiting, Reason: "x", Failure: &Failure{At: later}}, later)
			return r, err
		}},
		{"back", func(r Stored) (Stored, error) {
			r, _, err := r.Settle(7, Verdict{State: Waiting}, later)
			return r, err
		}},
		{"by another", func(r Stored) (Stored, error) {
			r, _, err := r.Settle(6, Verdict{State: Done}, later)
			return r, err
		}},
		{"extend", func(r Stored) (Stored, error) { return r.Extend(7, later) }},
		{"resolve done", func(r Stored) (Stored, error) { r, _, err := r.Resolve(ResolvedAsDone, "", "", later); return r, err }},
		{"resolve nothing", func(r Stored) (Stored, error) { r, _, err := r.Resolve(ResolvedAsFailed, "", "", later); return r, err }},
		{"take back", func(r Stored) (Stored, error) { r, _, err := r.Resolve(Unresolved, "", "", later); return r, err }},
		{"drop", func(r Stored) (Stored, error) { r, _, err := r.Drop("", "", later); return r, err }},
		{"drop in time", func(r Stored) (Stored, error) { r, _, err := r.Drop("", "", start); return r, err }},
	}
	// by verb: what becomes of waiting, taken, done, dropped; - is a refusal
	want := map[string]string{
		"put":             "waiting taken waiting waiting",
		"lapse":           "- waiting - -",
		"lapse in time":   "- - - -",
		"done":            "- done done -",
		"failed":          "waiting waiting - -",
		"back":            "waiting waiting - -",
		"by another":      "- - - -",
		"extend":          "- taken - -",
		"resolve done":    "- - - -",
		"take back":       "waiting - - -",
		"resolve nothing": "waiting taken - -",
		"drop":            "dropped dropped - dropped",
		"drop in time":    "dropped - - dropped",
	}
	for _, v := range verbs {
		var got []string
		for s := Waiting; s <= Dropped; s++ {
			if r, err := v.do(in(s)); err != nil {
				got = append(got, "-")
			} else {
				got = append(got, r.State.String())
			}
		}
		if text := strings.Join(got, " "); text != want[v.name] {
			t.Errorf("%s: %s, want %s", v.name, text, want[v.name])
		}
	}
	if r := in(Waiting).Take("d", 3, later, start); r.State != Taken || r.Token <= 7 || !r.Until.Equal(later) {
		t.Errorf("%v %d", r.State, r.Token)
	}
}

func refused(ok bool) error {
	if ok {
		return nil
	}
	return ErrState
}

// Over any time no more letters are taken than the rate allows, and one second's more.
func FuzzPace(f *testing.F) {
	f.Add(uint64(1), 5.0)
	f.Add(uint64(2), 0.001)
	f.Add(uint64(3), 1e12)
	f.Add(uint64(4), 1e-300)
	f.Fuzz(func(t *testing.T, seed uint64, rate float64) {
		c, err := NewCourse(Query{Group: "g"}, Drive{Rate: rate}, "d", 1, start)
		if err != nil {
			return
		}
		draw, now := rand.New(rand.NewPCG(seed, 1)), start
		type taking struct {
			at time.Time
			n  int
		}
		var all []taking
		for range 50 {
			want := 1 + draw.IntN(20)
			n, wait := c.Due(want, now)
			if n < 0 || n > want || wait < 0 || n < want && wait == 0 {
				t.Fatalf("%d of %d due, wait %v", n, want, wait)
			}
			if n == 0 {
				if before, _ := c.Due(1, now.Add(wait-1)); before != 0 {
					t.Fatalf("due before its wait of %v is over", wait)
				}
				if after, _ := c.Due(1, now.Add(wait)); after != 1 {
					t.Fatalf("not due after its wait of %v", wait)
				}
			}
			c = c.Take(n, now)
			all = append(all, taking{now, n})
			now = now.Add(time.Duration(draw.Int64N(int64(5 * time.Second))))
		}
		for i := range all {
			sum := 0
			for _, x := range all[i:] {
				sum += x.n
				if most := 1 + rate*(x.at.Sub(all[i].at)+burst).Seconds()*1.000001; float64(sum) > most {
					t.Fatalf("%d letters in %v at %v a second", sum, x.at.Sub(all[i].at), rate)
				}
			}
		}
	})
}

// When a redrive stops is what the full history says.
func FuzzStop(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0})
	f.Add([]byte(strings.Repeat("\x01", 30) + strings.Repeat("\x00", 20)))
	f.Fuzz(func(t *testing.T, outcomes []byte) {
		c, _ := NewCourse(Query{Group: "g"}, Drive{Rate: 1}, "d", max(len(outcomes), 1), start)
		var history []bool
		for _, o := range outcomes {
			if c.State != Driving {
				break
			}
			history = append(history, o&1 == 1)
			v := Verdict{State: Waiting, Failure: &Failure{}}
			if o&1 == 1 {
				v = Verdict{State: Done}
			}
			c = c.Settle(Stored{}, v)
			last := history[max(0, len(history)-20):]
			good := 0
			for _, ok := range last {
				if ok {
					good++
				}
			}
			want, left := Driving, len(outcomes)-len(history)
			if len(last) >= 10 && 2*good < len(last) {
				want, left = StoppedByItself, 0
			}
			if c.State != want || c.Left != left || want == StoppedByItself && !strings.Contains(c.Why, fmt.Sprintf("last %d letters %d", len(last), good)) {
				t.Fatalf("after %v: %+v, want %s", history, c, want)
			}
		}
	})
}

// What is kept of failures is what the full history says.
func FuzzFailures(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789"), "ä")
	f.Add([]byte{9, 9, 9, 1, 1, 200}, "\xff\x00")
	f.Fuzz(func(t *testing.T, times []byte, text string) {
		var kept, history []Failure
		for _, at := range times {
			one := Failure{At: start.Add(time.Duration(at) * time.Second), Message: strings.Repeat(text, 200), Class: text}
			kept = AddFailures(kept, one)
			if !slices.ContainsFunc(history, func(h Failure) bool { return h.At.Equal(one.At) }) {
				history = append(history, one)
			}
		}
		slices.SortFunc(history, func(a, b Failure) int { return a.At.Compare(b.At) })
		if over := len(history) - MaxFailures; over > 0 {
			history = append(history[:1:1], history[1+over:]...)
		}
		if len(kept) != len(history) {
			t.Fatalf("%d kept, want %d", len(kept), len(history))
		}
		for i := range kept {
			if !kept[i].At.Equal(history[i].At) || len(kept[i].Message) > MaxMessage || !utf8.ValidString(kept[i].Message) || strings.Contains(kept[i].Message, "\x00") {
				t.Fatalf("%d: %v", i, kept[i])
			}
		}
	})
}

func FuzzPlace(f *testing.F) {
	f.Add("", int64(0))
	f.Add(strings.Repeat("0", 48), int64(-1))
	f.Fuzz(func(t *testing.T, text string, kept int64) {
		if p, err := ParsePlace(text); err == nil && p.String() != text {
			t.Errorf("%q became %q", text, p)
		}
		p := Place{kept, LetterID("", "", []byte(text))}
		if got, err := ParsePlace(p.String()); err != nil || got != p {
			t.Errorf("%v became %v, %v", p, got, err)
		}
	})
}

func TestTimesThatCantBeKept(t *testing.T) {
	for _, year := range []int{-5, 0, 1, 1600, 2300, 99999} {
		if got := Nanos(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)); got != 0 {
			t.Errorf("year %d: %d", year, got)
		}
	}
	if now := time.Now(); !Time(Nanos(now)).Equal(now) || !Time(Nanos(time.Time{})).IsZero() {
		t.Error("a time does not come back")
	}
}

func TestOptionsThatCantBe(t *testing.T) {
	for _, o := range []Options{{Overflow: 2}, {MaxPayload: 2, MaxBytes: 1}} {
		if _, err := NewMemory(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	r := Options{MaxPayload: -1, MaxLetters: -1, MaxBytes: -1, Retention: -1}.Resolved()
	if r.MaxPayload < 1<<60 || r.MaxLetters < 1<<30 || r.MaxBytes < 1<<60 || r.Retention < 1<<60 {
		t.Errorf("%+v", r)
	}
}

// A panic in Dropping removes nothing from the store.
func TestDroppingThatPanics(t *testing.T) {
	m, err := NewMemory(Options{MaxLetters: 1, Overflow: DropOldest, Dropping: func(context.Context, Notice) { panic("no") }})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		l := Letter{ID: LetterID("g", fmt.Sprint(n), nil), Group: "g"}
		if err := m.Put(t.Context(), l); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Get(t.Context(), LetterID("g", "0", nil)); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
