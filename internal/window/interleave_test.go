package window

import (
	"fmt"
	"testing"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/interleave"
)

// spender is a Headroom of two shards and two buckets of ten nanoseconds, and what
// is known of it from outside. Who begins to spend when as many calls have ended as
// the key allows must be refused, and whoever sums up must find what has ended.
type spender struct {
	*Headroom
	allowed map[uint64]int
	ended   Counts // calls and failures
	begun   Counts
	taken   int64 // calls that have begun to be taken back
	newer   int64 // calls of the second bucket
	wrong   error
}

func newSpender(allowed map[uint64]int) *spender {
	h := MakeHeadroom(20, 2, 2)
	h.Sum(0)
	return &spender{Headroom: &h, allowed: allowed}
}

func (s *spender) add(now clock.Instant, shard, calls, failures uint32) {
	c := Counts{Calls: int64(calls), Failures: int64(failures)}
	s.begun = s.begun.plus(c)
	s.Add(now, shard, calls, failures)
	s.count(now, c)
}

func (s *spender) count(now clock.Instant, c Counts) {
	s.ended = s.ended.plus(c)
	if now >= 10 {
		s.newer += c.Calls
	}
}

func (s *spender) take(at, now clock.Instant, shard uint32) {
	s.taken++
	if !s.Take(at, now, shard, 1, 0) {
		s.wrong = fmt.Errorf("nothing taken at %d", at)
	}
}

func (s *spender) spend(now clock.Instant, shard uint32, key uint64) {
	before := s.ended.Calls
	s.begun.Calls++
	if !s.Spend(now, shard, key) {
		s.begun.Calls--
		return
	}
	s.count(now, Counts{Calls: 1})
	if least := before - s.taken; least >= int64(s.allowed[key]) {
		s.wrong = fmt.Errorf("shard %d spends after %d calls, and key %d allows %d", shard, least, key, s.allowed[key])
	}
}

func (s *spender) sum(now clock.Instant) {
	least := s.ended
	c := s.Sum(now)
	if c.Calls < least.Calls-s.taken || c.Calls > s.begun.Calls || c.Failures < least.Failures || c.Failures > s.begun.Failures {
		s.wrong = fmt.Errorf("%+v, want between %+v and %+v", c, least, s.begun)
	}
}

func (s *spender) allow(key uint64) { s.Allow(s.Turn(), key, float64(s.allowed[key])) }

// check is for the end: nothing is lost, nothing is counted in an older bucket, and
// the lock is free.
func (s *spender) check() error {
	want := s.ended
	want.Calls -= s.taken
	if got := s.Sum(0); s.wrong == nil && got != want {
		return fmt.Errorf("%+v in the end, want %+v", got, want)
	}
	if got := s.Sum(20); s.wrong == nil && got.Calls < s.newer-s.taken {
		return fmt.Errorf("%d calls of the second bucket, want %d", got.Calls, s.newer)
	}
	return s.wrong
}

// spenders are the scenes. Thread by thread they say what is done to a spender that
// has been prepared.
var spenders = []struct {
	fact    string
	often   int // how often a thread is interrupted
	allowed map[uint64]int
	before  func(s *spender) // leaves something to spend
	threads []func(s *spender)
}{
	{
		"a call past the share of its shard, and spenders of another", 2,
		map[uint64]int{7: 40},
		func(s *spender) { s.allow(7); s.add(0, 0, 20, 0); s.add(0, 1, 18, 0) },
		[]func(s *spender){
			func(s *spender) { s.add(0, 0, 1, 0) },
			func(s *spender) { s.spend(0, 1, 7); s.spend(0, 1, 7) },
		},
	},
	{
		"a call that lands while calls are being allowed", 3,
		map[uint64]int{7: 40},
		func(s *spender) { s.add(0, 0, 4, 0); s.add(0, 1, 4, 0) },
		[]func(s *spender){
			func(s *spender) { s.allow(7); s.spend(0, 1, 7) },
			func(s *spender) { s.add(0, 0, 30, 0); s.spend(0, 1, 7); s.spend(0, 1, 7); s.spend(0, 1, 7) },
		},
	},
	{
		"calls that land in both shards while calls are being allowed", 2,
		map[uint64]int{7: 40},
		nil,
		[]func(s *spender){
			func(s *spender) { s.allow(7) },
			func(s *spender) { s.add(0, 0, 21, 0); s.spend(0, 1, 7) },
			func(s *spender) { s.add(0, 1, 19, 0); s.spend(0, 0, 7) },
		},
	},
	{
		"a call that lands in a bucket that was closed meanwhile", 3,
		map[uint64]int{7: 60},
		nil,
		[]func(s *spender){
			func(s *spender) { s.add(10, 1, 9, 0); s.allow(7); s.add(10, 1, 10, 0); s.spend(10, 1, 7) },
			func(s *spender) { s.add(0, 0, 45, 0); s.spend(10, 1, 7) },
		},
	},
	{
		"a call that is spent from a bucket that was closed meanwhile", 3,
		map[uint64]int{7: 39},
		func(s *spender) { s.add(0, 0, 7, 0); s.allow(7) },
		[]func(s *spender){
			func(s *spender) { s.spend(0, 0, 7); s.spend(10, 1, 7) },
			func(s *spender) {
				s.add(10, 1, 0, 1)
				s.allow(7)
				s.add(10, 0, 16, 0)
				s.add(10, 1, 15, 0)
				s.spend(10, 1, 7)
			},
		},
	},
	{
		"a failure that lands in a bucket that was closed meanwhile", 2,
		nil,
		nil,
		[]func(s *spender){
			func(s *spender) { s.add(0, 0, 0, 1); s.sum(10) },
			func(s *spender) { s.add(10, 1, 1, 0); s.sum(10) },
		},
	},
	{
		"one who spends at a turn", 2,
		map[uint64]int{7: 40},
		func(s *spender) { s.allow(7) },
		[]func(s *spender){
			func(s *spender) { s.spend(10, 0, 7); s.sum(10) },
			func(s *spender) { s.add(10, 1, 1, 0); s.sum(10) },
		},
	},
	{
		"a key that is changed beside one who asks for it", 2,
		map[uint64]int{7: 1000, 8: 40},
		func(s *spender) { s.allow(7); s.add(0, 0, 100, 0) },
		[]func(s *spender){
			func(s *spender) { s.add(0, 0, 500, 0); s.allow(8) },
			func(s *spender) { s.spend(0, 1, 8) },
		},
	},
	{
		"a key that is changed beside one who asks for the one before", 2,
		map[uint64]int{7: 40, 8: 1000},
		func(s *spender) { s.allow(7); s.add(0, 0, 20, 0); s.add(0, 1, 20, 0) },
		[]func(s *spender){
			func(s *spender) { s.add(0, 0, 1, 0); s.allow(8) },
			func(s *spender) { s.spend(0, 1, 7) },
		},
	},
	{
		"a turn with another key, and one who asks for that before it", 2,
		map[uint64]int{7: 1000, 8: 40},
		func(s *spender) { s.allow(7); s.add(0, 0, 100, 0) },
		[]func(s *spender){
			func(s *spender) { s.add(10, 0, 1, 0); s.allow(8) },
			func(s *spender) { s.spend(0, 1, 8) },
		},
	},
	{
		"a turn after which a shard holds more than it might before", 2,
		map[uint64]int{7: 40},
		func(s *spender) { s.allow(7); s.add(0, 0, 20, 0); s.add(0, 1, 20, 0) },
		[]func(s *spender){
			func(s *spender) { s.add(10, 0, 100, 0); s.allow(7) },
			func(s *spender) { s.spend(0, 0, 7) },
		},
	},
	{
		"a turn while calls are being allowed", 2,
		map[uint64]int{7: 40},
		nil,
		[]func(s *spender){
			func(s *spender) { s.allow(7); s.spend(0, 0, 7) },
			func(s *spender) { s.add(10, 1, 1, 0) },
		},
	},
	{
		"two who allow, and one who spends", 2,
		map[uint64]int{7: 40, 8: 60},
		func(s *spender) { s.add(0, 0, 4, 0) },
		[]func(s *spender){
			func(s *spender) { s.allow(7); s.add(0, 0, 36, 0); s.spend(0, 1, 7) },
			func(s *spender) { s.allow(8); s.spend(0, 1, 7) },
		},
	},
	{
		"a call taken back that another spends", 2,
		map[uint64]int{7: 40},
		func(s *spender) { s.allow(7); s.add(0, 0, 20, 0); s.add(0, 1, 20, 0) },
		[]func(s *spender){
			func(s *spender) { s.take(0, 0, 0); s.add(0, 0, 1, 0) },
			func(s *spender) { s.spend(0, 0, 7); s.spend(0, 1, 7) },
		},
	},
	{
		"two who spend the last of a shard", 2,
		map[uint64]int{7: 40},
		func(s *spender) { s.allow(7); s.add(0, 0, 19, 0); s.add(0, 1, 20, 0) },
		[]func(s *spender){
			func(s *spender) { s.spend(0, 0, 7); s.spend(0, 0, 7) },
			func(s *spender) { s.spend(0, 0, 7); s.sum(0) },
		},
	},
}

func TestInterleavedHeadroom(t *testing.T) {
	for _, c := range spenders {
		t.Run(c.fact, func(t *testing.T) {
			interleave.Explore(t, c.often, func() (threads []func(), check func() error) {
				s := newSpender(c.allowed)
				if c.before != nil {
					c.before(s)
				}
				for _, do := range c.threads {
					threads = append(threads, func() { do(s) })
				}
				return threads, s.check
			})
		})
	}
}
