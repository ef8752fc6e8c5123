package report

import (
	"slices"
	"strings"
)

var blocksOf8 = []rune(" ▁▂▃▄▅▆▇█")

// beyond stands where a spark is higher than its scale.
const beyond = '▲'

// sparks are the load and what came of it, on one scale, and what it cost, on
// another: both sides have the same.
func (t *screen) sparks() {
	const figures = 14
	label := 11
	if len(t.Sides) > 1 {
		label = 9 + t.sideWidth()
	}
	p := &plot{end: t.end, width: t.bin}
	columns := t.width - label - figures
	if bins := int(t.end / t.bin); bins > 30 { // no wider than what is known
		columns = min(columns, bins)
	}
	type row struct {
		name, code string
		ys, at     []float64
	}
	var rows []row
	var calls, attempts []float64
	for i := range t.Sides {
		r := &t.Sides[i].Series
		for _, of := range []row{{"offered", faint, r.Offered.Mid, nil}, {"goodput", green, r.Goodput.Mid, nil}, {"attempts", amber, r.Attempts.Mid, nil}} {
			if i > 0 && of.name == "offered" {
				continue // by the same clients
			}
			of.at = resample(p.bins(of.ys), columns)
			if of.name == "attempts" {
				attempts = append(attempts, of.at...)
			} else {
				calls = append(calls, of.at...)
			}
			if len(t.Sides) > 1 && of.name != "offered" {
				of.name = left(of.name, 9) + t.shortName(i, t.sideWidth()-1)
			}
			rows = append(rows, of)
		}
	}
	tops, cut := map[string]float64{}, false
	for code, of := range map[string][]float64{faint: calls, green: calls, amber: attempts} {
		top, spikes := scaleOf(of)
		tops[code], cut = top, cut || spikes
	}
	for _, of := range rows {
		t.line("", left(of.name, label), of.code, spark(of.at, tops[of.code]), faint, right(figure(highest(of.ys))+"/s max", figures))
	}
	t.line("", left("", label), red, t.spans(p, columns), faint, right(moment(t.end), figures))
	if cut {
		t.line(faint, left("", label)+string(beyond)+" is above the scale, which ends where 98 % of the columns do")
	}
	t.line()
}

// spans marks the columns in which something is wrong.
func (t *screen) spans(p *plot, columns int) string {
	marks := []rune(strings.Repeat("·", columns))
	for _, f := range t.shades {
		from, to := p.edges(f)
		for k := int(from / wide * float64(columns)); k < columns && float64(k)*wide/float64(columns) < to; k++ {
			marks[k] = '━'
		}
	}
	return string(marks)
}

// resample returns the means of columns parts of a series.
func resample(ys []float64, columns int) []float64 {
	out := make([]float64, columns)
	for k := range out {
		from, to := k*len(ys)/columns, max((k+1)*len(ys)/columns, k*len(ys)/columns+1)
		if from < len(ys) {
			out[k] = thin(ys[from:min(to, len(ys))], to-from, plus, true)[0]
		}
	}
	return out
}

// scaleOf returns where the scale of sparks ends: at the highest, unless a few are so
// much higher than the others that they would flatten them.
func scaleOf(ys []float64) (top float64, cut bool) {
	top = highest(ys)
	sorted := slices.Clone(ys)
	slices.Sort(sorted)
	if len(sorted) > 0 {
		if most := sorted[int(0.98*float64(len(sorted)-1))]; most > 0 && top > 2*most {
			return most, true
		}
	}
	return top, false
}

// spark draws values, a column for each.
func spark(ys []float64, top float64) string {
	out := make([]rune, len(ys))
	for k, y := range ys {
		level := 0
		if y > 0 && top > 0 {
			level = min(max(int(float64(y/top*8)+0.5), 1), 8)
		}
		out[k] = blocksOf8[level]
		if y > 1.25*top {
			out[k] = beyond
		}
	}
	return string(out)
}
