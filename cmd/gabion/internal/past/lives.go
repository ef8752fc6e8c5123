package past

import "math"

// lives are when each process was seen.
type lives map[string]life

type life struct {
	first, last int64
	times       int
}

func (l lives) saw(process string, from, to int64) {
	seen, ok := l[process]
	if !ok {
		seen = life{from, to, 0}
	}
	l[process] = life{min(seen.first, from), max(seen.last, to), seen.times + 1}
}

// within is for how long the process was there from one time to another. It was there before it was seen first, and after it
// was seen last, for the usual time between. One that was seen once or twice was there all the time, as far as is known.
func (l life) within(from, to int64) float64 {
	if l.times <= 2 {
		return float64(to - from)
	}
	more := (l.last - l.first) / int64(l.times-1)
	return float64(max(min(l.last+more, to)-max(l.first-more, from), 0))
}

// atOnce is how many processes there were from one time to another, on average: a deployment
// replaces them, so that not all that were seen were there at once. It is 1 at least.
func (l lives) atOnce(from, to int64) int {
	if from >= to {
		return max(len(l), 1)
	}
	sum := 0.0
	for _, seen := range l {
		sum += seen.within(from, to)
	}
	return max(int(math.Round(sum/float64(to-from))), 1)
}

// all notes the samples of a series.
func (l lives) all(s *series) {
	process := s.Metric["instance"] + "\x00" + s.Metric["pod"]
	for _, v := range s.Values {
		l.saw(process, v.at, v.at)
	}
	for _, h := range s.Histograms {
		l.saw(process, h.at, h.at)
	}
}
