package outbox

import (
	"strings"
	"testing"
	"time"
)

// batchOf makes rows of a text: "a1 b1 a2! x" is four, of which a2 has failed before and x
// has no aggregate.
func batchOf(text string) (batch []*row) {
	for n, id := range strings.Fields(text) {
		x := &row{seq: int64(n), Message: Message{ID: strings.TrimSuffix(id, "!")}}
		if strings.HasSuffix(id, "!") {
			x.attempts = 1
		}
		if x.ID[0] != 'x' {
			x.Aggregate = x.ID[:1]
		}
		batch = append(batch, x)
	}
	return batch
}

func TestWaves(t *testing.T) {
	for _, c := range []struct {
		name      string
		batch     string
		fruitless int
		want      string
	}{
		{"nothing", "", 0, ""},
		{"nothing, again", "", 3, ""},
		{"what has no order goes together", "x1 x2 x3", 0, "x1 x2 x3"},
		{"an aggregate goes one by one", "a1 a2 a3", 0, "a1|a2|a3"},
		{"several do so side by side", "a1 a2 b1 x1 a3 b2 x2", 0, "a1 b1 x1 x2|a2 b2|a3"},
		{"what has failed goes alone, after the others and in its order", "a1! b1 a2 b2! b3 x1! x2", 0, "b1 x2|a1|x1|a2|b2|b3"},
		{"nothing could be published: few, each alone, and only first ones", "a1 a2 b1 x1", 1, "a1|b1|x1"},
		{"of many the next ones", "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9", 2, "x8|x9|x0|x1|x2|x3|x4|x5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, wave := range waves(batchOf(c.batch), c.fruitless) {
				var ids []string
				for _, x := range wave {
					ids = append(ids, x.ID)
				}
				got = append(got, strings.Join(ids, " "))
			}
			if s := strings.Join(got, "|"); s != c.want {
				t.Errorf("%s, want %s", s, c.want)
			}
		})
	}
}

func TestLease(t *testing.T) {
	start := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	asked := begun(7, 30*time.Second, at(0))
	for _, c := range []struct {
		name        string
		l           lease
		next, until float64
	}{
		{"counts from before it was asked for", asked, 10, 27},
		{"a renewal counts from before it, too", asked.renewed(at(10)), 20, 37},
		{"one that was not answered is tried again soon, and moves no end", asked.missed(at(11)), 13, 27},
	} {
		if !c.l.next.Equal(at(c.next)) || !c.l.until.Equal(at(c.until)) || c.l.token != 7 {
			t.Errorf("%s: next %v, until %v", c.name, c.l.next.Sub(start), c.l.until.Sub(start))
		}
		if c.l.over(at(c.until-0.001)) || !c.l.over(at(c.until)) {
			t.Errorf("%s: over at another time", c.name)
		}
	}
}

func TestList(t *testing.T) {
	seqs := []int64{1, 9223372036854775807}
	if got := Postgres.numbers(seqs) + " " + SQLite.numbers(seqs); got != "1,9223372036854775807 [1,9223372036854775807]" {
		t.Error(got)
	}
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		d     Dialect
		table string
		o     Options
		want  string
	}{
		{Postgres, "shop.outbox", Options{}, ""},
		{SQLite, "_o1", Options{MaxPayload: 1}, ""},
		{Dialect{}, "outbox", Options{}, "dialect"},
		{SQLite, "", Options{}, "table name"},
		{SQLite, "a.b.c", Options{}, "table name"},
		{SQLite, "outbox; DROP TABLE orders", Options{}, "table name"},
		{SQLite, strings.Repeat("o", 51), Options{}, "table name"},
		{SQLite, "outbox", Options{MaxPayload: -1}, "MaxPayload"},
	} {
		if _, err := New(nil, c.d, c.table, c.o); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.table, err, c.want)
		}
	}
}
