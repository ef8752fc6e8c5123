package past

import (
	"sort"
	"time"
)

// A Limit is a rate of the dependency, above which it answered 429.
type Limit struct {
	At, For time.Duration
	Rate    float64 // a second
	Rows    []Row   // without the 429, which the limit answers
}

// fewThrottled is how many 429 say that there is a limit.
const fewThrottled = 20

// limit finds the limit, if there is one. It is taken to hold from the first 429 to the last, and
// to have let through what was.
func (t *tape) limit(begin int64, told []attempt) {
	var of []attempt // that were not throttled
	first, last, n := int64(0), int64(0), 0
	for _, a := range told {
		if a.status != 429 {
			of = append(of, a)
			continue
		}
		if n == 0 {
			first = a.at
		}
		last, n = a.at, n+1
	}
	if n < fewThrottled || len(of) == 0 || last-first < int64(time.Second) {
		return
	}
	through := 0
	for _, a := range t.attempts {
		if a.at >= first && a.at < last && (a.knows == cut || a.knows == met && a.status != 429) {
			through++
		}
	}
	l := &Limit{At: time.Duration(max(first-begin, 0)), For: time.Duration(last - first), Rate: float64(through) / time.Duration(last-first).Seconds()}
	for _, r := range t.Rows {
		if r.Status == 429 {
			k := nearest(of, begin+int64(r.At))
			r.Took, r.Status = time.Duration(of[k].took), of[k].status
		}
		l.Rows = append(l.Rows, r)
	}
	if l.Rate > 0 {
		t.Past.Limit = l
	}
}

// limit is the same of metrics.
func (m *meter) limit(network int) {
	first, last, n, through := -1, 0, 0.0, 0.0
	for i, s := range m.steps {
		throttled := func(label string) bool { return label == "throttled" }
		x := s.sum(ofAttempts, throttled) + s.sum(ofRepeats, throttled)
		if x == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last, n = i, n+x
	}
	if first < 0 || n < fewThrottled {
		return
	}
	for _, s := range m.steps[first : last+1] {
		sent := func(label string) bool {
			return label != "throttled" && label != "ignored" && label != "rejected" && label != "crashed"
		}
		through += s.sum(ofAttempts, sent) + s.sum(ofRepeats, sent)
	}
	whole := *m.Past
	m.Rows, m.unlimited = nil, true
	m.rows(network)
	l := &Limit{At: m.at[first], For: time.Duration(last-first+1) * m.step, Rows: m.Rows}
	l.Rate = through / l.For.Seconds() * m.part
	if *m.Past = whole; l.Rate > 0 {
		m.Past.Limit = l
	}
}

// sorted brings rows into the order of their times.
func sorted(rows []Row) []Row {
	sort.SliceStable(rows, func(a, b int) bool { return rows[a].At < rows[b].At })
	return rows
}
