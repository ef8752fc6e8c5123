package budget

import "sync/atomic"

// ShareRules say how many re-sends a [Share] lets be in flight: RatioPPM millionths of the
// calls in flight, of which the whole part counts, or Min if that is more. Negative fields
// count as 0, and the zero ShareRules allow nothing.
type ShareRules struct{ RatioPPM, Min int64 }

// NewShareRules rounds a ratio to [ShareRules].
func NewShareRules(ratio float64, least int) ShareRules {
	return ShareRules{RatioPPM: rounded(ratio, million, million*million), Min: int64(max(least, 0))}
}

// Allows returns how many re-sends may be in flight beside a number of calls.
func (r ShareRules) Allows(calls int64) int64 {
	return max(worth(uint64(max(calls, 0)), r.RatioPPM)/million, r.Min, 0)
}

// Share is a budget of concurrency: re-sends in flight are at most a share of the calls in
// flight, as in Envoy's retry budget. Nothing is saved up, and time does nothing.
//
// A call is in flight from its first attempt to its end, and so while it waits to be sent
// again. A re-send is in flight from when it is granted, which is before that wait, until
// its attempt has ended. So calls that fail together can't all find room, and a call that waits
// leaves no room for another. With attempts that take equally long, the re-sends of many calls add
// ratio / (1 − ratio) to the load at most. Re-sends that end sooner than first attempts add more: a
// Share bounds what is in flight and not what is sent.
//
// Calls are counted by shards. A Share is made by [MakeShare]; the zero Share counts on one
// word. All methods are safe for concurrent use and take no lock. It must not be copied
// after first use.
type Share struct {
	calls   counters // in flight
	resends atomic.Int64
}

// MakeShare returns an empty budget. Calls are counted on one word, and on shards cache lines, at most 256, rounded
// up to a power of two, once two have met there.
func MakeShare(shards int) (s Share) {
	s.calls.bound(shards)
	return
}

// Begin counts a call, when its first attempt is sent. Callers that run on different
// processors should pass different shards.
func (s *Share) Begin(shard uint32) { s.calls.add(shard, 1) }

// End is the end of a call that Begin has counted in that shard.
func (s *Share) End(shard uint32) { s.calls.add(shard, ^uint64(0)) }

// TryWithdraw grants one re-send if the rules allow one more in flight. Release must follow
// once for each that was granted.
func (s *Share) TryWithdraw(r ShareRules) bool {
	for {
		resends := s.resends.Load()
		if resends >= r.Allows(int64(s.calls.sum())) {
			return false
		}
		if s.resends.CompareAndSwap(resends, resends+1) {
			return true
		}
	}
}

// Release is the end of a re-send that was granted: its attempt has ended, or was not made.
func (s *Share) Release() { s.resends.Add(-1) }

// Level returns how many more re-sends the rules allow.
func (s *Share) Level(r ShareRules) int64 {
	calls, resends := s.Counts()
	return max(r.Allows(calls)-resends, 0)
}

// Counts returns the calls and the re-sends that are in flight.
func (s *Share) Counts() (calls, resends int64) {
	return int64(s.calls.sum()), s.resends.Load()
}
