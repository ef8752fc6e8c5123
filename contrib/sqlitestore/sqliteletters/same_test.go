package sqliteletters

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// A pair is two stores that get the same.
type pair struct {
	*testing.T
	draw   *rand.Rand
	now    time.Time
	stores [2]deadletter.Store
	taken  [2][]deadletter.Lease
	drives [2][]string
}

// own is which of the package's errors it is.
func own(err error) string {
	for _, e := range []error{deadletter.ErrNotFound, deadletter.ErrState, deadletter.ErrLost, deadletter.ErrFull, deadletter.ErrBusy} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return fmt.Sprint(err)
}

// Any sequence of calls has the same results in a database as in memory.
func TestDatabasesDoAsMemoryDoes(t *testing.T) {
	testrace.Serial(t)
	rounds := uint64(2)
	if os.Getenv("GABION_SOAK") != "" {
		rounds = 300
	}
	dsn := testservers.Postgres(t)
	for seed := range rounds {
		for _, kind := range []string{"sqlite", "postgres"} {
			p := &pair{T: t, draw: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0)}
			o := deadletter.Options{Clock: func() time.Time { return p.now }, MaxLetters: 10, Retention: time.Hour, Overflow: deadletter.Overflow(seed % 2)}
			m, err := deadletter.NewMemory(o)
			if err != nil {
				t.Fatal(err)
			}
			p.stores[0] = m
			if kind == "sqlite" {
				p.stores[1] = openFile(t, filepath.Join(t.TempDir(), "letters"), o)
			} else {
				_, p.stores[1] = openPostgres(t, dsn, fmt.Sprint("same", seed), o)
			}
			for step := range 150 {
				p.step(fmt.Sprintf("%s, seed %d, step %d", kind, seed, step))
				if t.Failed() {
					return
				}
			}
		}
	}
}

// step makes one call of both and compares what is said and what there is then.
func (p *pair) step(at string) {
	ctx := p.Context()
	what, n, m := p.draw.IntN(13), p.draw.IntN(14), p.draw.IntN(1000)
	var said [2]string
	for i, s := range p.stores {
		said[i] = p.call(ctx, i, s, what, n, m)
	}
	if p.Helper(); said[0] != said[1] {
		p.Errorf("%s: call %d says %s, in memory %s", at, what, said[1], said[0])
	}
	p.now = p.now.Add(time.Duration(m) * time.Millisecond)
	if m%50 == 0 {
		p.now = p.now.Add(20 * time.Minute)
	}
	var there [2]string
	for i, s := range p.stores {
		there[i] = p.look(ctx, s)
	}
	if there[0] != there[1] {
		p.Errorf("%s: after call %d\n%s\nin memory\n%s", at, what, there[1], there[0])
	}
}

func (p *pair) call(ctx context.Context, i int, s deadletter.Store, what, n, m int) string {
	l := letter(n)
	l.Order, l.Reason = []string{"", "a", "b"}[n%3], []string{"permanent", deadletter.Unknown}[m%2]
	failure := deadletter.Failure{At: time.Unix(int64(m), 0), Attempt: m % 5, Message: fmt.Sprint(m)}
	l.Failures, l.Last = []deadletter.Failure{failure}, time.Unix(int64(m), 0)
	switch what {
	case 0, 1, 2:
		return own(s.Put(ctx, l))
	case 3:
		return own(s.Fail(ctx, l.ID, failure))
	case 4:
		return own(s.Forget(ctx, l.ID))
	case 5:
		d, err := s.Order(ctx, deadletter.Query{Group: "g", Before: p.now.Add(-time.Duration(m) * time.Millisecond)}, deadletter.Drive{Rate: float64(1 + m%7)})
		p.drives[i] = append(p.drives[i], d.ID)
		return fmt.Sprint(own(err), d.Total)
	case 6, 7:
		taken, _, err := s.Take(ctx, "g", 1+m%4, time.Duration(1+m)*time.Second)
		p.taken[i] = append(p.taken[i], taken...)
		text := own(err)
		for _, l := range taken {
			text += fmt.Sprint(" ", l.ID, l.Token>>20)
		}
		return text
	case 8, 9, 10:
		if len(p.taken[i]) == 0 {
			return ""
		}
		l := p.taken[i][m%len(p.taken[i])]
		v := []deadletter.Verdict{{State: deadletter.Done}, {State: deadletter.Waiting, Reason: "failed", Failure: &failure}, {State: deadletter.Waiting}, {State: deadletter.Waiting, Failure: &failure}}[n%4]
		if n == 13 {
			return own(s.Extend(ctx, l, time.Minute))
		}
		return own(s.Settle(ctx, l, v))
	case 11:
		if m%2 == 0 {
			return own(s.Drop(ctx, l.ID, "ann", "no"))
		}
		return own(s.Resolve(ctx, l.ID, deadletter.Resolution(m/2%3), "ann", "saw"))
	}
	if k := len(p.drives[i]); k > 0 && m%2 == 0 {
		return own(s.Stop(ctx, p.drives[i][m%k], "ann", "enough"))
	}
	removed, err := s.Sweep(ctx)
	return fmt.Sprint(removed, own(err))
}

// look says all that there is.
func (p *pair) look(ctx context.Context, s deadletter.Store) (text string) {
	every := deadletter.Query{States: []deadletter.State{0, 1, 2, 3}}
	page, err := s.List(ctx, every, "", 0)
	if err != nil {
		return err.Error()
	}
	for _, l := range page.Letters {
		l, err := s.Get(ctx, l.ID)
		text += fmt.Sprintln(l, l.Since, l.Kept, l.First, l.Last, l.Attempts, l.Redriven, l.Resolved, l.By, l.Note, len(l.Headers), l.Failures, err)
	}
	drives, err := s.Drives(ctx, "")
	for _, d := range drives {
		d.ID = ""
		text += fmt.Sprintln(d)
	}
	stats, err2 := s.Stats(ctx, "g")
	for state := range deadletter.State(4) {
		text += fmt.Sprint(state, stats.ByState[state], " ")
	}
	return text + fmt.Sprintln(stats.Letters, stats.Unresolved, stats.Oldest, stats.Bytes, stats.Put, err, err2)
}
