package quota

// limit is how much there is in all, as the server says.
type limit struct {
	counts float64 // zero: it says nothing
	proven float64 // the largest one that counted
	before float64 // what counted before a larger one was believed; zero: none was
	larger int     // words in a row that named a larger one than counts
	needed int     // of them, beyond those that the first time needs
}

const (
	proofs    = 8 // words in a row make a larger limit count
	mostLarge = 1024
	maxLimit  = 1e15
)

// hear takes the limit that a word names. A smaller one counts at once, as does one that has counted before. A larger one counts
// when several words in a row have named it.
func (l *limit) hear(named float64) {
	switch {
	case !(named > 0 && named <= maxLimit):
		return
	case l.counts == 0 || named <= max(l.counts, l.proven):
		l.counts, l.larger = named, 0
	default:
		if l.larger++; l.larger >= proofs+l.needed {
			l.before, l.counts, l.larger = l.counts, named, 0
		}
	}
	l.proven = max(l.proven, l.counts)
}

// refused takes back a larger limit: an attempt was refused since it counts. The next one needs twice as many words.
func (l *limit) refused() {
	l.larger = 0
	if l.before > 0 {
		l.counts, l.proven, l.before = min(l.counts, l.before), l.before, 0
		l.needed = min(2*l.needed+proofs, mostLarge)
	}
}
