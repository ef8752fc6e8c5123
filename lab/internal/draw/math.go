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
	s := 1.0 / 21 // written out: a loop would divide each time
	s = float64(s*w) + 1.0/19
	s = float64(s*w) + 1.0/17
	s = float64(s*w) + 1.0/15
	s = float64(s*w) + 1.0/13
	s = float64(s*w) + 1.0/11
	s = float64(s*w) + 1.0/9
	s = float64(s*w) + 1.0/7
	s = float64(s*w) + 1.0/5
	s = float64(s*w) + 1.0/3
	s = float64(s*w) + 1
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
	s := 1.0
	for n := 14; n >= 1; n-- {
		s = 1 + float64(float64(s*r)/float64(n))
	}
	return math.Ldexp(s, int(k)) // bits only
}
