package draw

import "math"

// The functions below give the same bits on every machine, which those of package
// math don't promise: some are written in assembly, and a compiler may fuse a
// product with a sum. Every product here is converted, which forbids that.

const (
	ln2High = 6.93147180369123816490e-01 // the upper 33 bits of ln 2
	ln2Low  = 1.90821492927058770002e-10
)

// Ln returns the natural logarithm of x, which must be positive and finite, with
// an error below 2e-15 relative to 1 + |ln x|.
func Ln(x float64) float64 {
	m, e := math.Frexp(x) // bits only
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	z := (m - 1) / (m + 1) // |z| < 0.1716, and ln m = 2 artanh z
	w := float64(z * z)
	w2 := float64(w * w)
	// The series of artanh, its terms taken in turns: two short sums wait less for one
	// another than a long one for itself.
	even := 1.0 / 21
	even = float64(even*w2) + 1.0/17
	even = float64(even*w2) + 1.0/13
	even = float64(even*w2) + 1.0/9
	even = float64(even*w2) + 1.0/5
	even = float64(even*w2) + 1
	odd := 1.0 / 19
	odd = float64(odd*w2) + 1.0/15
	odd = float64(odd*w2) + 1.0/11
	odd = float64(odd*w2) + 1.0/7
	odd = float64(odd*w2) + 1.0/3
	s := even + float64(odd*w)
	ln := float64(2 * float64(z*s))
	return float64(float64(e)*ln2High) + (ln + float64(float64(e)*ln2Low))
}

// Exp returns e to the power of x, with an error below 1e-14 relative to it.
// Below -700 it is 0, and above 700 as at 700.
func Exp(x float64) float64 {
	switch {
	case x < -700:
		return 0
	case x > 700:
		x = 700
	}
	k := math.Floor(float64(x/math.Ln2) + 0.5)
	r := (x - float64(k*ln2High)) - float64(k*ln2Low)
	r2 := float64(r * r)
	// The series of e to the r, whose terms are one over the factorials, in turns.
	even := 1.0 / 87178291200
	even = float64(even*r2) + 1.0/479001600
	even = float64(even*r2) + 1.0/3628800
	even = float64(even*r2) + 1.0/40320
	even = float64(even*r2) + 1.0/720
	even = float64(even*r2) + 1.0/24
	even = float64(even*r2) + 1.0/2
	even = float64(even*r2) + 1
	odd := 1.0 / 6227020800
	odd = float64(odd*r2) + 1.0/39916800
	odd = float64(odd*r2) + 1.0/362880
	odd = float64(odd*r2) + 1.0/5040
	odd = float64(odd*r2) + 1.0/120
	odd = float64(odd*r2) + 1.0/6
	odd = float64(odd*r2) + 1
	s := even + float64(odd*r)
	return math.Ldexp(s, int(k)) // bits only
}
