package letterpage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// Limits on questions to the store of dead letters, which may be a database that is slow or down.
const (
	letterTime      = 2 * time.Second  // for a look
	letterActTime   = 10 * time.Second // for a redrive, a resolve or a drop
	letterQuestions = 4                // at once: more would wait for each other in the database
	letterStockTime = 2 * time.Second  // how long counts are shown again
	letterPage      = 50               // letters in one list
	letterGroups    = 100              // groups that are shown: a program has a few
	letterDrives    = 20               // redrives that are shown, the newest
	letterText      = 200              // characters of a text in a list: longer ones are cut
	letterInflow    = 10 * time.Minute // over which new letters are counted
)

// errLettersSlow says what a viewer reads when the store does not answer.
var errLettersSlow = errors.New("the store of dead letters does not answer in time")

// A letterbox asks a store of dead letters, for all who look.
type letterbox struct {
	store deadletter.Store
	busy  chan struct{} // a place for each question

	mu       sync.Mutex
	at       time.Time // when stock was counted
	stock    *letterStock
	counting *stocktaking          // nil while no count runs
	was      map[string][]putCount // by group, the oldest first
}

// A putCount is how many letters of a group were ever put away, at some time.
type putCount struct {
	at  time.Time
	put int64
}

// asked asks the store with a time limit that holds also where the store does not look at its
// context. There are as many goroutines as questions.
func asked[T any](ctx context.Context, b *letterbox, limit time.Duration, question func(context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLettersSlow)
	defer cancel()
	select {
	case b.busy <- struct{}{}:
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errors.New("the store of dead letters panicked")}
		defer func() {
			_ = recover()
			<-b.busy
			done <- r
		}()
		r.answer, r.err = question(ctx)
	}()
	select {
	case r := <-done:
		if r.err != nil && errors.Is(r.err, context.DeadlineExceeded) {
			r.err = cmp.Or(context.Cause(ctx), r.err)
		}
		return r.answer, r.err
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}

// A letterStock is what a store has, by group.
type letterStock struct {
	Groups []letterGroup `json:"groups"`
	Hidden int           `json:"groups_hidden,omitempty"`
	Drives []letterDrive `json:"redrives"`
}

type letterGroup struct {
	letterName
	Waiting    int           `json:"waiting"`
	Taken      int           `json:"taken"`
	Unresolved int           `json:"unresolved"`
	Oldest     int64         `json:"oldest,omitempty"` // milliseconds since 1970
	Bytes      int64         `json:"bytes"`
	Put        int64         `json:"put"`
	New        int64         `json:"new"`         // letters that were put away
	NewWithin  int64         `json:"new_seconds"` // the seconds that New covers
	Reasons    []letterCount `json:"reasons"`
}

type letterCount struct {
	letterName
	Count int `json:"count"`
}

// A letterName is a group or a reason.
type letterName struct {
	Name  string `json:"name"`            // as it is shown
	Value string `json:"value,omitempty"` // as the store has it, where that is another: it is what is asked for
}

func nameOf(s string) letterName {
	if shown := letterCut(s); shown != s {
		return letterName{shown, s}
	}
	return letterName{Name: s}
}

type letterDrive struct {
	ID     string  `json:"id"`
	Group  string  `json:"group"`
	State  string  `json:"state"`
	Why    string  `json:"why,omitempty"`
	Rate   float64 `json:"rate"`
	By     string  `json:"by,omitempty"`
	Made   int64   `json:"made"`
	Total  int     `json:"total"`
	Left   int     `json:"left"`
	Done   int     `json:"done"`
	Failed int     `json:"failed"`
}

// A stocktaking is one count of the store, shared by all viewers that ask while it runs.
type stocktaking struct {
	done  chan struct{} // closed when the rest is known
	stock *letterStock
	err   error
}

// count returns what the store has, and asks it only if that was some time ago.
func (b *letterbox) count(ctx context.Context) (*letterStock, error) {
	b.mu.Lock()
	if b.stock != nil && time.Since(b.at) < letterStockTime {
		defer b.mu.Unlock()
		return b.stock, nil
	}
	s := b.counting
	if s == nil {
		s = &stocktaking{done: make(chan struct{})}
		b.counting = s
		go b.run(s) //nolint:gosec // for all viewers, even if one leaves
	}
	b.mu.Unlock()
	select {
	case <-s.done:
		return s.stock, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// run counts for all who wait, even if one leaves.
func (b *letterbox) run(s *stocktaking) {
	s.stock, s.err = asked(context.Background(), b, letterTime, b.take)
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(s.done)
	if b.counting != s {
		return // the letters have changed since
	}
	b.counting = nil
	if s.err == nil {
		b.stock, b.at = s.stock, time.Now()
	}
}

// forget makes the next look count anew, after a change.
func (b *letterbox) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stock, b.counting = nil, nil
}

// take takes stock.
func (b *letterbox) take(ctx context.Context) (*letterStock, error) {
	names, err := b.store.Groups(ctx)
	if err != nil {
		return nil, err
	}
	s := &letterStock{Groups: []letterGroup{}, Drives: []letterDrive{}, Hidden: max(0, len(names)-letterGroups)}
	for _, name := range names[:min(len(names), letterGroups)] {
		stats, err := b.store.Stats(ctx, name)
		if err != nil {
			return nil, err
		}
		s.Groups = append(s.Groups, b.groupOf(name, &stats))
	}
	drives, err := b.store.Drives(ctx, "")
	if err != nil {
		return nil, err
	}
	for i := range drives[:min(len(drives), letterDrives)] {
		s.Drives = append(s.Drives, driveOf(&drives[i]))
	}
	return s, nil
}

func (b *letterbox) groupOf(name string, s *deadletter.Stats) letterGroup {
	g := letterGroup{
		letterName: nameOf(name), Waiting: s.ByState[deadletter.Waiting], Taken: s.ByState[deadletter.Taken],
		Unresolved: s.Unresolved, Oldest: milliseconds(s.Oldest), Bytes: s.Bytes, Put: s.Put, Reasons: []letterCount{},
	}
	for reason, n := range s.ByReason {
		if n > 0 {
			g.Reasons = append(g.Reasons, letterCount{nameOf(reason), n})
		}
	}
	slices.SortFunc(g.Reasons, func(a, b letterCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name))
	})
	g.New, g.NewWithin = b.inflow(name, s.Put)
	return g
}

// inflow counts the letters that were put away since the first look, or in the last minutes.
func (b *letterbox) inflow(group string, put int64) (letters, seconds int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	was := b.was[group]
	for len(was) > 1 && now.Sub(was[1].at) >= letterInflow {
		was = was[1:]
	}
	if n := len(was); n == 0 || now.Sub(was[n-1].at) >= letterInflow/20 { // so there are about twenty
		was = append(slices.Clip(was), putCount{now, put})
	}
	if len(b.was) < letterGroups || b.was[group] != nil {
		b.was[group] = was
	}
	return max(0, put-was[0].put), int64(now.Sub(was[0].at) / time.Second)
}

func driveOf(d *deadletter.Drive) letterDrive {
	return letterDrive{
		ID: d.ID, Group: letterCut(d.Group), State: d.State.String(), Why: letterCut(d.Why), Rate: d.Rate, By: letterCut(d.By),
		Made: milliseconds(d.Made), Total: d.Total, Left: d.Left, Done: d.Done, Failed: d.Failed,
	}
}

// A letterLine is a letter in a list.
type letterLine struct {
	ID       deadletter.ID `json:"id"`
	Kept     int64         `json:"kept"`
	Group    string        `json:"group"`
	Key      string        `json:"key,omitempty"`
	Source   string        `json:"source,omitempty"`
	Reason   string        `json:"reason"`
	State    string        `json:"state"`
	Resolved string        `json:"resolved,omitempty"`
	Attempts int           `json:"attempts"`
	Error    string        `json:"error,omitempty"` // the last one
}

func lineOf(l *deadletter.Letter) letterLine {
	line := letterLine{
		ID: l.ID, Kept: milliseconds(l.Kept), Group: letterCut(l.Group), Key: letterCut(l.Key), Source: letterCut(l.Source),
		Reason: letterCut(l.Reason), State: l.State.String(), Attempts: l.Attempts,
	}
	if l.Resolved != deadletter.Unresolved {
		line.Resolved = l.Resolved.String()
	}
	if n := len(l.Failures); n > 0 {
		line.Error = letterCut(l.Failures[n-1].Message)
	}
	return line
}

// letterCut is a text as the page shows it: bounded, and without what no browser shows or what
// turns the direction of text around.
func letterCut(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > letterText {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == ' ':
			b.WriteRune(' ')
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
