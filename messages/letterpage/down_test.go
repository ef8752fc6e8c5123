package letterpage

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// A deaf store is one that does not come back.
type deafStore struct {
	deadletter.Store
	answer    func(context.Context) error
	now, most atomic.Int32 // questions at once
}

func (s *deafStore) ask(ctx context.Context) error {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	return s.answer(ctx)
}

func (s *deafStore) Groups(ctx context.Context) ([]string, error)               { return nil, s.ask(ctx) }
func (s *deafStore) Drives(context.Context, string) ([]deadletter.Drive, error) { return nil, nil }
func (s *deafStore) Get(ctx context.Context, _ deadletter.ID) (deadletter.Letter, error) {
	return deadletter.Letter{}, s.ask(ctx)
}
func (s *deafStore) Drop(ctx context.Context, _ deadletter.ID, _, _ string) error { return s.ask(ctx) }

func TestAStoreThatIsDownDoesNotHoldThePage(t *testing.T) {
	for _, c := range []struct {
		fact   string
		answer func(ctx context.Context, end chan struct{}) error
		says   string
	}{
		{"it fails", func(context.Context, chan struct{}) error { return errors.New("disk full") }, "disk full"},
		{"it heeds its time", func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return ctx.Err() }, "does not answer in time"},
		{"it is deaf", func(_ context.Context, end chan struct{}) error { <-end; return nil }, "does not answer in time"},
		{"it panics", func(context.Context, chan struct{}) error { panic("nil map") }, "panicked"},
		{"it ends its goroutine", func(context.Context, chan struct{}) error { runtime.Goexit(); return nil }, "panicked"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				store := &deafStore{answer: func(ctx context.Context) error { return c.answer(ctx, end) }}
				p := dashboard.New(dashboard.Config{Letters: New(store), AllowOverrides: true})
				defer p.Close()
				began := time.Now()
				for range 20 {
					go ask(p, "GET", "/api/v1/letters")
				}
				if v := lettersAt(t, p, ""); !strings.Contains(v.Problem, c.says) {
					t.Errorf("%q", v.Problem)
				}
				if text := ask(p, "GET", "/?letters").Body.String(); !strings.Contains(text, c.says) {
					t.Error(text)
				}
				if w := ask(p, "GET", "/api/v1/letter?id=1"); w.Code != 503 || !strings.Contains(w.Body.String(), c.says) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				if took := time.Since(began); took > 3*letterTime {
					t.Errorf("three looks took %v", took)
				}
				if w := actOn(p, `{"action":"drop","id":"1","note":"x"}`); w.Code != 503 || !strings.Contains(w.Body.String(), "may have been done") {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				if w := ask(p, "GET", "/"); w.Code != 200 {
					t.Errorf("the page itself: %d", w.Code)
				}
				if n := store.most.Load(); n > letterQuestions {
					t.Errorf("%d questions at once", n)
				}
				close(end) // the bubble ends only when every goroutine has
			})
		})
	}
}

// Many who look make the store count once, and one who leaves takes nothing from the others.
func TestManyWhoLookCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts atomic.Int32
		b := newLetterbox(&deafStore{answer: func(context.Context) error {
			counts.Add(1)
			time.Sleep(time.Second)
			return errNone
		}})
		first, leave := context.WithCancel(t.Context())
		go b.count(first)
		synctest.Wait()
		leave()
		for range 50 {
			go func() {
				if _, err := b.count(t.Context()); !errors.Is(err, errNone) {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		if n := counts.Load(); n != 1 {
			t.Errorf("the store counted %d times", n)
		}
	})
}

// After a change no viewer gets a count from before it.
func TestAChangeIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts atomic.Int32
		b := newLetterbox(&deafStore{answer: func(context.Context) error {
			counts.Add(1)
			time.Sleep(time.Second)
			return nil
		}})
		go b.count(t.Context())
		time.Sleep(time.Millisecond)
		b.forget()
		for range 2 {
			if _, err := b.count(t.Context()); err != nil {
				t.Error(err)
			}
			if n := counts.Load(); n != 2 {
				t.Errorf("the store counted %d times", n)
			}
		}
	})
}

var errNone = errors.New("absent")

func TestNewLettersAreCountedOverTheLastMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLetterbox(&deafStore{})
		for i := range 3600 {
			letters, seconds := b.inflow("billing", int64(i))
			if want := min(i, 630); int(letters) > want || int(seconds) > want || i > 700 && letters < 590 {
				t.Fatalf("after %d s: %d letters in %d s", i, letters, seconds)
			}
			time.Sleep(time.Second)
		}
		if n := len(b.was["billing"]); n > 25 {
			t.Errorf("%d counts are kept", n)
		}
	})
}
