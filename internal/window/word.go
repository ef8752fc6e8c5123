package window

// A word is one cell: the tag of the bucket that it belongs to in the upper 16
// bits, and two counters of 24 bits.
type word uint64

const (
	counterBits = 24
	counterMax  = 1<<counterBits - 1
	tagShift    = 2 * counterBits
)

func (w word) tag() uint16   { return uint16(w >> tagShift) }
func (w word) empty() bool   { return w<<(64-tagShift) == 0 }
func (w word) first() int64  { return int64(w >> counterBits & counterMax) }
func (w word) second() int64 { return int64(w & counterMax) }

// plus reports false when either counter would overflow.
func (w word) plus(first, second uint32) (word, bool) {
	ok := w.first()+int64(first) <= counterMax && w.second()+int64(second) <= counterMax
	return w + word(first)<<counterBits + word(second), ok
}

// minus reports false when either counter would be negative.
func (w word) minus(first, second uint32) (word, bool) {
	ok := w.first() >= int64(first) && w.second() >= int64(second)
	return w - word(first)<<counterBits - word(second), ok
}

// A place says where a bucket is: its tag in the upper half, and in the lower at which
// cell of each shard it begins. Tags follow one another as buckets do, so the place of
// the newest bucket tells those of all. A tag comes back after 65536 buckets: only an
// Add that sleeps between two instructions for so long could write to a wrong bucket.
type place uint32

func (p place) tag() uint16 { return uint16(p >> 16) }
func (p place) cell() int   { return int(p & 0xffff) }

// next returns the place of the next bucket where a bucket takes step cells, and
// all of them length cells.
func (p place) next(step, length int) place {
	cell := p.cell() + step
	if cell == length {
		cell = 0
	}
	return place(p.tag()+1)<<16 | place(cell)
}

// back returns the place of the bucket that is age buckets older.
func (p place) back(age, step, length int) place {
	cell := p.cell() - age*step
	if cell < 0 {
		cell += length
	}
	return place(p.tag()-uint16(age))<<16 | place(cell)
}

// A tally is the word of a shard: the tag of the bucket that it counts for in the upper
// 16 bits, then calls, failures and slow calls in 16 bits each.
type tally uint64

const (
	tallyBits = 16
	tallyMax  = 1<<tallyBits - 1
)

func (t tally) tag() uint16 { return uint16(t >> tagShift) }
func (t tally) full() bool  { return t>>(2*tallyBits)&tallyMax == tallyMax } // there are most of calls

func (t tally) counts() Counts {
	return Counts{int64(t >> (2 * tallyBits) & tallyMax), int64(t >> tallyBits & tallyMax), int64(t & tallyMax)}
}

func (t tally) plus(failed, slow bool) tally {
	return t + 1<<(2*tallyBits) + tally(one(failed))<<tallyBits + tally(one(slow))
}

func one(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
