// Package chance turns a seed and the name of a decision into a draw.
//
// A draw is a pure function of what it is for: which call, which attempt, which
// purpose. So draws do not depend on the order in which goroutines arrive, a draw that is not used
// costs nothing, and a recorded call can be replayed. It is the idea of a counter-based generator
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11) with a cheaper mixer: two
// rounds of the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA'14).
//
// The numbers are for jitter and sampling. They are predictable from the seed; never make a secret
// of one.
package chance

// Purpose says what a draw is for, so that two draws of one attempt differ.
type Purpose uint64

// The purposes that gabion draws for.
const (
	Backoff   Purpose = iota + 1 // the wait before a retry
	After                        // the spread added to a server's Retry-After
	OpenTime                     // how much longer a breaker stays open
	Throttled                    // whether adaptive throttling rejects
	Pacing                       // how a held-back fleet spreads out
	Exercise                     // whether a call goes to the fallback to keep it in use
	Budgeting                    // whether part of a re-send is granted
	Choosing                     // to which endpoint an attempt goes
)

// U returns the draw of (seed, call, try, purpose): uniform in [0, 1).
func U(seed, call, try uint64, p Purpose) float64 {
	return float64(Bits(seed, call, try, p)>>11) / (1 << 53)
}

// Bits returns the 64 bits that [U] is made of.
func Bits(seed, call, try uint64, p Purpose) uint64 {
	x := scramble(seed + 0x9e3779b97f4a7c15*(call+1))
	return scramble(x ^ (try*0xbf58476d1ce4e5b9 + uint64(p)*0xd1b54a32d192ed03))
}

// scramble is the finaliser of SplitMix64.
func scramble(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
