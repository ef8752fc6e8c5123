package past

import "math"

// lives are when the first and the last was seen of each process.
type lives map[string][2]int64

func (l lives) saw(process string, at int64) {
	seen, ok := l[process]
	if !ok {
		seen = [2]int64{at, at}
	}
	l[process] = [2]int64{min(seen[0], at), max(seen[1], at)}
}

// atOnce is how many processes there were from one time to another, on average: a deployment
// replaces them, so that not all that were seen were there at once. It is 1 at least.
func (l lives) atOnce(from, to int64) int {
	if from >= to {
		return max(len(l), 1)
	}
	sum := 0.0
	for _, seen := range l {
		sum += float64(max(min(seen[1], to)-max(seen[0], from), 0))
	}
	return max(int(math.Round(sum/float64(to-from))), 1)
}

// all notes the samples of a series.
func (l lives) all(s *series) {
	process := s.Metric["instance"] + "\x00" + s.Metric["pod"]
	for _, v := range s.Values {
		l.saw(process, v.at)
	}
	for _, h := range s.Histograms {
		l.saw(process, h.at)
	}
}
