package window

import (
	"fmt"
	"testing"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/interleave"
)

// scene is an Elastic with two buckets of ten nanoseconds, and what is known of it from
// outside: a sum must find what has ended, and nothing that has not begun.
type scene struct {
	Elastic
	begun, ended Counts
	taken        int64 // calls that have begun to be taken back
	newer        int64 // calls of the second bucket
	first        Place // of the first bucket
	wrong        error
}

func newScene() *scene {
	s := &scene{Elastic: MakeElastic(20, 2)}
	s.Sum(0)
	s.first = s.Place()
	return s
}

func (s *scene) add(now clock.Instant, shard uint32, failed bool) {
	s.begun.Calls++
	s.begun.Failures += int64(one(failed))
	if failed {
		s.Add(now, shard, true, true)
	} else {
		s.AddGood(now, shard)
	}
	s.ended.Calls++
	s.ended.Failures += int64(one(failed))
	if now >= 10 {
		s.newer++
	}
}

func (s *scene) sum(now clock.Instant) {
	least := s.ended
	c := s.Sum(now)
	if c.Calls < least.Calls-s.taken || c.Calls > s.begun.Calls || c.Failures < least.Failures || c.Failures > s.begun.Failures || c.Slow > c.Calls {
		s.wrong = fmt.Errorf("%+v, want between %+v and %+v", c, least, s.begun)
	}
}

func (s *scene) take(now clock.Instant) {
	s.taken++
	if !s.Take(s.first, now, false) {
		s.wrong = fmt.Errorf("nothing taken at %d", now)
	}
}

// check is for the end: nothing is lost, nothing of the second bucket is counted in an
// older one, and the lock is free.
func (s *scene) check() error {
	want := s.ended
	want.Calls -= s.taken
	if got := s.Sum(0); s.wrong == nil && (got.Calls != want.Calls || got.Failures != want.Failures || got.Slow != want.Failures) {
		return fmt.Errorf("%+v in the end, want %+v", got, want)
	}
	if got := s.Sum(20); s.wrong == nil && got.Calls < s.newer-s.taken {
		return fmt.Errorf("%d calls of the second bucket, want %d", got.Calls, s.newer)
	}
	return s.wrong
}

func TestInterleaved(t *testing.T) {
	type verbs []func(s *scene)
	add := func(now clock.Instant, shard uint32) func(s *scene) {
		return func(s *scene) { s.add(now, shard, false) }
	}
	fail := func(now clock.Instant, shard uint32) func(s *scene) {
		return func(s *scene) { s.add(now, shard, true) }
	}
	sum := func(now clock.Instant) func(s *scene) { return func(s *scene) { s.sum(now) } }
	grow := func(s *scene) { s.Grow(2) }
	take := func(now clock.Instant) func(s *scene) { return func(s *scene) { s.take(now) } }
	full := func(s *scene) { // the first shard holds as much as it can
		t := &s.shards.Load().all[0].tally
		n := tallyMax - int64(tally(t.Load()).counts().Calls)
		t.Add(uint64(n) << (2 * tallyBits))
		s.begun.Calls += n
		s.ended.Calls += n
	}
	for _, c := range []struct {
		fact    string
		before  verbs
		threads []verbs
	}{
		{"two that add to one word", nil, []verbs{{fail(0, 0), sum(0)}, {fail(0, 1), sum(0)}}},
		{"one that adds, and a turn", nil, []verbs{{fail(0, 0), sum(10)}, {fail(10, 1), sum(10)}}},
		{"good calls, and a turn", nil, []verbs{{add(0, 0), sum(10)}, {add(10, 1), sum(10)}}},
		{"good calls, and growth with a turn", verbs{add(0, 0)}, []verbs{{add(0, 0), sum(10)}, {grow, add(10, 1), sum(10)}}},
		{"good calls in one word", nil, []verbs{{add(0, 0), sum(0)}, {add(0, 1), fail(0, 1), sum(0)}}},
		{"one that adds, and growth", nil, []verbs{{fail(0, 0), sum(0)}, {grow, fail(0, 1), sum(0)}}},
		{"one that adds, and growth with a turn", verbs{add(0, 0)}, []verbs{{fail(0, 0), sum(10)}, {grow, fail(10, 1), sum(10)}}},
		{"one that turns, and growth", verbs{add(0, 0)}, []verbs{{fail(10, 0), sum(10)}, {grow, fail(0, 1), sum(0)}}},
		{"two that add to a shard", verbs{grow}, []verbs{{fail(0, 0), sum(0)}, {fail(0, 0), sum(0)}}},
		{"one that adds to a shard, and a turn", verbs{grow, fail(0, 0)}, []verbs{{fail(0, 0), sum(10)}, {fail(10, 1), sum(10)}}},
		{"one that sums up, and a turn", verbs{grow, fail(0, 0), fail(0, 1)}, []verbs{{sum(0), sum(10)}, {fail(10, 1), fail(0, 1)}}},
		{"two that turn", verbs{grow, fail(0, 0), fail(0, 1)}, []verbs{{fail(10, 0), sum(10)}, {fail(10, 1), sum(10)}}},
		{"a turn without the shards, and one with them", verbs{grow, fail(0, 0)}, []verbs{
			{func(s *scene) { s.win.Sum(10) }, fail(0, 0), sum(0)}, {fail(10, 0), sum(10)}}},
		{"a shard that is full", verbs{grow, full}, []verbs{{fail(0, 0), sum(0)}, {fail(0, 0), sum(0)}}},
		{"a shard that is full, and a turn", verbs{grow, full}, []verbs{{fail(0, 0), sum(10)}, {fail(10, 0), sum(10)}}},
		{"one that takes back from a shard, and one that adds", verbs{grow, add(0, 0)}, []verbs{{take(0), sum(0)}, {fail(0, 0), sum(0)}}},
		{"one that takes back from a shard, and a turn", verbs{grow, add(0, 0)}, []verbs{{take(0), sum(0)}, {fail(10, 0), sum(10)}}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			interleave.Explore(t, 3, func() ([]func(), func() error) {
				s := newScene()
				do := func(v verbs) func() {
					return func() {
						for _, verb := range v {
							verb(s)
						}
					}
				}
				do(c.before)()
				var threads []func()
				for _, v := range c.threads {
					threads = append(threads, do(v))
				}
				return threads, s.check
			})
		})
	}
}
