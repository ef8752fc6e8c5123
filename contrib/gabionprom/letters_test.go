package gabionprom_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/contrib/gabionprom"
)

// A shelf is a store as far as metrics ask it.
type shelf struct {
	asked  atomic.Int32
	answer atomic.Pointer[func(ctx context.Context) error]
	groups []string
	each   gabionprom.LetterGroup
}

func (s *shelf) Groups(ctx context.Context, most int) (all []gabionprom.LetterGroup, err error) {
	s.asked.Add(1)
	for _, name := range s.groups[:min(len(s.groups), most)] {
		g := s.each
		g.Name = name
		all = append(all, g)
	}
	if answer := s.answer.Load(); answer != nil {
		return all, (*answer)(ctx)
	}
	return all, nil
}

// full is a shelf with letters, whose oldest is an hour old.
func full(groups ...string) *shelf {
	return &shelf{groups: groups, each: gabionprom.LetterGroup{
		Waiting: 6, Taken: 1, Unresolved: 3, Oldest: time.Now().Add(-time.Hour), Bytes: 1234, Put: 16, Driving: true,
	}}
}

func TestDeadLettersAreExposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := gabionprom.New(gabionprom.Config{Letters: full("billing")})
		got := gather(t, m)
		for _, x := range []expect{
			series(6, "gabion_dead_letters", "dependency=billing", "state=waiting"),
			series(1, "gabion_dead_letters", "dependency=billing", "state=taken"),
			series(7, "gabion_dead_letters"),
			series(3, "gabion_dead_letters_unresolved", "dependency=billing"),
			series(3600, "gabion_dead_letters_oldest_age_seconds", "dependency=billing"),
			series(1234, "gabion_dead_letters_bytes", "dependency=billing"),
			series(16, "gabion_dead_letters_put_total", "dependency=billing"),
			series(1, "gabion_redrives_running", "dependency=billing"),
			series(1, "gabion_dead_letter_store_up"),
		} {
			if n := got.sum(x.name, x.labels...); n != x.want {
				t.Errorf("%s %v is %v, want %v", x.name, x.labels, n, x.want)
			}
		}
	})
}

func TestRedrivesThatStoppedByThemselvesAreExposed(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		s := full("billing")
		s.each.Driving, s.each.Stopped = false, stopped
		got := gather(t, gabionprom.New(gabionprom.Config{Letters: s}))
		if n := got.sum("gabion_redrives_stopped", "dependency=billing"); (n == 1) != stopped {
			t.Errorf("stopped: %v, want %v", n, stopped)
		}
		if n := got.sum("gabion_redrives_running", "dependency=billing"); n != 0 {
			t.Errorf("running: %v", n)
		}
	}
}

func TestWithoutStoreNothingIsSaidOfLetters(t *testing.T) {
	if _, there := gather(t, gabionprom.New(gabionprom.Config{}))["gabion_dead_letter_store_up"]; there {
		t.Error("there is a store")
	}
}

// A store is asked every ten seconds, however many servers scrape.
func TestScrapesShareOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := full("billing")
		m := gabionprom.New(gabionprom.Config{Letters: s})
		for range 30 {
			gather(t, m)
			time.Sleep(time.Second)
		}
		if n := s.asked.Load(); n != 3 {
			t.Errorf("asked %d times in 30 s, want 3", n)
		}
	})
}

func TestAStoreThatIsDownDoesNotHoldScrapes(t *testing.T) {
	var never chan struct{}
	for _, c := range []struct {
		fact   string
		answer func(context.Context) error
		waits  time.Duration // of each scrape, at most
	}{
		{"it fails", func(context.Context) error { return errors.New("down") }, 0},
		{"it answers when its time is over", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 500 * time.Millisecond},
		{"it panics", func(context.Context) error { panic("nil map") }, 0},
		{"its goroutine ends", func(context.Context) error { runtime.Goexit(); return nil }, 0},
		{"it is deaf", func(context.Context) error { <-never; return errors.New("down") }, 500 * time.Millisecond},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				s := full("billing")
				m := gabionprom.New(gabionprom.Config{Letters: s})
				gather(t, m)
				s.answer.Store(&c.answer)
				time.Sleep(11 * time.Second)
				before := runtime.NumGoroutine()
				for range 20 {
					began := time.Now()
					got := gather(t, m)
					if took := time.Since(began); took > c.waits {
						t.Errorf("a scrape took %v", took)
					}
					if stale := len(got["gabion_dead_letters"].GetMetric()) > 0; stale && time.Since(s.each.Oldest) > time.Hour+61*time.Second {
						t.Error("what it said more than a minute ago is exposed")
					}
					time.Sleep(5 * time.Second)
				}
				if n := gather(t, m).sum("gabion_dead_letter_store_up"); n != 0 {
					t.Errorf("up is %v", n)
				}
				if n := runtime.NumGoroutine(); n > before+2 {
					t.Errorf("%d goroutines, and %d before", n, before)
				}
				close(never)
				s.answer.Store(nil)
				time.Sleep(11 * time.Second)
				if n := gather(t, m).sum("gabion_dead_letter_store_up"); n != 1 {
					t.Errorf("up is %v once it is back", n)
				}
			})
		})
	}
}

func TestGroupsAreBounded(t *testing.T) {
	s := full()
	for i := range 10_000 {
		s.groups = append(s.groups, fmt.Sprint("g", i))
	}
	m := gabionprom.New(gabionprom.Config{Letters: s})
	if n := len(gather(t, m)["gabion_dead_letters"].GetMetric()); n != 2*200 {
		t.Errorf("%d series", n)
	}
}
