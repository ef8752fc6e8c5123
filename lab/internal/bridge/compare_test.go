package bridge

import (
	"fmt"
	"math"
	"strings"
)

// A figure is one that the lab and what was lived through must have in common.
type figure struct {
	what  string
	value float64
}

// The ways to say by how much the lab is off.
func byShare(lab, real float64) float64  { return lab/real - 1 }
func byPoints(lab, real float64) float64 { return lab - real }

const header = "policy | measure | lab | real time | deviation\n"

// compare returns the rows of the table, and where the lab is off by more than it may be,
// which is said for each figure.
func compare(name string, lab, real []figure, off func(lab, real float64) float64, within ...float64) (table string, wrong []string) {
	var rows strings.Builder
	for i, f := range lab {
		r := real[i].value
		by := off(f.value, r)
		if !(math.Abs(by) <= within[i]) { // a NaN is off too
			wrong = append(wrong, fmt.Sprintf("%s: %s is %.4g in the lab and %.4g in real time, off by %.1f %%, more than %.1f %%", name, f.what, f.value, r, 100*by, 100*within[i]))
		}
		fmt.Fprintf(&rows, "%s | %s | %.3f | %.3f | %+.1f %%\n", name, f.what, f.value, r, 100*by)
	}
	return rows.String(), wrong
}

func share(n, of int64) float64 { return float64(n) / float64(of) }
