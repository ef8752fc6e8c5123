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
func (w word) first() int64  { return int64(w >> counterBits & counterMax) }
func (w word) second() int64 { return int64(w & counterMax) }

// slowOf returns what a cell of slow calls holds, if it is of that tag.
func (w word) slowOf(tag uint16) int64 {
	if w.tag() != tag {
		return 0
	}
	return w.first()
}

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

// A place is a bucket's tag in the upper half, and in the lower at which cell of
// each shard it begins. Tags follow one another as buckets do, so the place of
// the newest bucket tells the places of all. A tag comes back after 65536
// buckets: an adder would have to sleep between two instructions for that long to
// hit a wrong one.
type place uint32

func (p place) tag() uint16 { return uint16(p >> 16) }
func (p place) cell() int   { return int(p & 0xffff) }

// next returns the place of the next bucket where a bucket takes step cells, and
// all of them row cells.
func (p place) next(step, row int) place {
	cell := p.cell() + step
	if cell == row {
		cell = 0
	}
	return place(p.tag()+1)<<16 | place(cell)
}

// back returns the place of the bucket that is so many buckets older.
func (p place) back(age, step, row int) place {
	cell := p.cell() - age*step
	if cell < 0 {
		cell += row
	}
	return place(p.tag()-uint16(age))<<16 | place(cell)
}
