package policy

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
)

// How files spell what a policy says. Numbers carry their unit, because a bare
// 250 has been read as seconds by one and as milliseconds by the next.

const (
	offText     = "off"
	learnedText = "learned"
)

// The longest number that is read. No number needs more, and what is parsed is bounded.
const maxNumberText = 40

var (
	trustText = []string{External: "external", Internal: "internal"}
	keyText   = []string{KeyDeclared: "declared", KeyMade: "made", KeyRequired: "required"}
	shapeText = []string{
		BudgetEarned: "earned", BudgetWindow: "window", BudgetTokens: "tokens",
		BudgetGRPC: "grpc", BudgetShare: "share", BudgetQuota: "quota",
	}
	perText = []string{PerAttempt: "attempt", PerCall: "call"}
)

// String returns the word that files use.
func (t Trust) String() string { return word(trustText, t) }

// MarshalText returns the word that files use, and an error for an unknown value.
func (t Trust) MarshalText() ([]byte, error) { return marshalWord(trustText, t) }

// UnmarshalText reads "external" or "internal"; on an error t stays as it was.
func (t *Trust) UnmarshalText(text []byte) error { return unmarshalWord(trustText, t, text) }

// String returns the word that files use.
func (k KeyMode) String() string { return word(keyText, k) }

// MarshalText returns the word that files use, and an error for an unknown value.
func (k KeyMode) MarshalText() ([]byte, error) { return marshalWord(keyText, k) }

// UnmarshalText reads "declared", "made" or "required"; on an error k stays as it
// was.
func (k *KeyMode) UnmarshalText(text []byte) error { return unmarshalWord(keyText, k, text) }

// String returns the word that files use.
func (s BudgetShape) String() string { return word(shapeText, s) }

// MarshalText returns the word that files use, and an error for an unknown value.
func (s BudgetShape) MarshalText() ([]byte, error) { return marshalWord(shapeText, s) }

// UnmarshalText reads "earned", "window", "tokens", "grpc", "share" or "quota"; on an
// error s stays as it was.
func (s *BudgetShape) UnmarshalText(text []byte) error { return unmarshalWord(shapeText, s, text) }

// String returns the word that files use.
func (p Per) String() string { return word(perText, p) }

// MarshalText returns the word that files use, and an error for an unknown value.
func (p Per) MarshalText() ([]byte, error) { return marshalWord(perText, p) }

// UnmarshalText reads "attempt" or "call"; on an error p stays as it was.
func (p *Per) UnmarshalText(text []byte) error { return unmarshalWord(perText, p, text) }

func textError(text, problem, proposal string) error {
	return &terms.TextError{Text: text, Problem: problem, Proposal: proposal}
}

func word[T ~uint8](words []string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return "unknown(" + strconv.Itoa(int(v)) + ")"
}

func marshalWord[T ~uint8](words []string, v T) ([]byte, error) {
	if int(v) < len(words) {
		return []byte(words[v]), nil
	}
	return nil, fmt.Errorf("policy: no word for %T %d: use one of %s", v, v, strings.Join(words, ", "))
}

func unmarshalWord[T ~uint8](words []string, v *T, text []byte) error {
	for i, w := range words {
		if string(text) == w {
			*v = T(i)
			return nil
		}
	}
	return textError(string(text), "is not known", "use one of "+strings.Join(words, ", "))
}

// String returns the percentage, "50%", or "off".
func (r Ratio) String() string {
	if r == Off {
		return offText
	}
	return shifted(float64(r)) + "%"
}

// MarshalText returns the percentage, "50%", or "off".
func (r Ratio) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a percentage such as "50%" or "0.1%", or "off". A bare
// number is refused, for 0.5 and 50 are both likely to be meant as 50 %, and so
// is nothing at all, which in a policy is the default. On an error r stays as it
// was.
func (r *Ratio) UnmarshalText(text []byte) error {
	s := string(text)
	if s == offText {
		*r = Off
		return nil
	}
	digits, ok := strings.CutSuffix(s, "%")
	switch {
	case !ok && isDecimal(s):
		return textError(s, "has no unit", "write "+percentFor(s))
	case len(s) > 1 && s[0] == 'p' && isDecimal(s[1:]):
		return textError(s, "is not a percentage", "write "+s[1:]+"%")
	case !ok || !isDecimal(digits):
		return textError(s, "is not a percentage", "write one such as 50%")
	}
	share, err := strconv.ParseFloat(digits+"e-2", 64) // rounds once; dividing by 100 would round twice
	if err != nil {
		return textError(s, "is not a percentage", "write one such as 50%")
	}
	if share == 0 {
		return textError(s, "would mean the default", "leave the key out, or write off")
	}
	*r = Ratio(share)
	return nil
}

// percentFor guesses what a bare number was meant to be.
func percentFor(s string) string {
	share, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return "50%"
	case share > 1:
		return s + "%"
	}
	return shifted(share) + "%"
}

// shifted returns 100·f exactly: it moves the decimal point of the shortest
// decimal that means f.
func shifted(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return s
	}
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	whole, part, _ := strings.Cut(s, ".")
	part += "00"
	whole, part = strings.TrimLeft(whole+part[:2], "0"), strings.TrimRight(part[2:], "0")
	whole = cmp.Or(whole, "0")
	if part != "" {
		whole += "." + part
	}
	return sign + whole
}

// rateUnits are tried in this order when a rate is written.
var rateUnits = []struct {
	name    string
	seconds float64
}{{"s", 1}, {"m", 60}, {"h", 3600}}

// readable is how long a rate may be before another unit is tried.
const readable = 6

// String returns the rate, "10/s" or, where that is endless, "1/m"; or "off".
func (r PerSecond) String() string {
	if r == Off {
		return offText
	}
	plain := formatFloat(float64(r)) + "/s"
	for _, unit := range rateUnits[1:] {
		digits := formatFloat(float64(float64(r) * unit.seconds))
		n, err := strconv.ParseFloat(digits, 64)
		if len(plain) > readable && err == nil && len(digits) <= readable && PerSecond(n/unit.seconds) == r {
			return digits + "/" + unit.name
		}
	}
	return plain
}

// MarshalText returns the rate, "10/s", or "off".
func (r PerSecond) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a rate per second, minute or hour, such as "10/s", "600/m"
// or "0.5/s", or "off". A bare number and a zero rate are refused. On an error r
// stays as it was.
func (r *PerSecond) UnmarshalText(text []byte) error {
	s := string(text)
	if s == offText {
		*r = Off
		return nil
	}
	digits, unit, _ := strings.Cut(s, "/")
	if !isDecimal(digits) {
		return textError(s, "is not a rate", "write one such as 10/s")
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return textError(s, "is not a rate", "write one such as 10/s")
	}
	if n == 0 {
		return textError(s, "would mean the default", "leave the key out, or write off")
	}
	for _, u := range rateUnits {
		if unit == u.name {
			*r = PerSecond(n / u.seconds)
			return nil
		}
	}
	return textError(s, "has no unit", "write "+digits+"/s")
}

// ParseDuration reads a duration as [time.ParseDuration] does, "250ms" or
// "1m30s", or "off". A bare number is refused, for it says neither seconds nor
// milliseconds; so is zero, for readers take it for "none" as often as for "at
// once": leaving the key out means the default.
func ParseDuration(s string) (time.Duration, error) {
	switch {
	case s == offText:
		return Off, nil
	case isDecimal(s) && strings.Trim(s, "0.") == "":
		return 0, textError(s, "could mean none or at once", "leave the key out for the default, or write off")
	case isDecimal(s):
		return 0, textError(s, "has no unit", fmt.Sprintf("write %sms or %ss", s, s))
	case len(s) > maxNumberText:
		return 0, notDuration(s)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		if _, err = time.ParseDuration(firstDigits(s)); err == nil {
			d = math.MaxInt64
		}
	}
	switch {
	case err != nil:
		return 0, notDuration(s)
	case d < 0 || strings.HasPrefix(s, "-"):
		return 0, textError(s, "is negative", "leave the key out for the default, or write off")
	case d == 0:
		return 0, textError(s, "could mean none or at once", "leave the key out for the default, or write off")
	case d == math.MaxInt64:
		return 0, textError(s, "is too large", "write at most "+FormatDuration(maxDuration))
	}
	return d, nil
}

// firstDigits is a duration of the same form that is not too large.
func firstDigits(s string) string {
	var short []byte
	for i := range len(s) {
		if i == 0 || !isDigits(s[i-1:i+1]) {
			short = append(short, s[i])
		}
	}
	return string(short)
}

func notDuration(s string) error {
	return textError(s, "is not a duration", "write one such as 250ms, 10s or 1m30s")
}

// FormatDuration returns d as files spell it: "1m" and not "1m0s", or "off".
func FormatDuration(d time.Duration) string {
	if d == Off {
		return offText
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func formatCount(n int) string {
	switch n {
	case Off:
		return offText
	case Learned:
		return learnedText
	}
	return strconv.Itoa(n)
}

// isDecimal reports whether s is digits with at most one point among them. No
// sign, exponent, hexadecimal, underscore or NaN: what strconv would take as well.
func isDecimal(s string) bool {
	whole, part, point := strings.Cut(s, ".")
	return len(s) <= maxNumberText && isDigits(whole) && (!point || isDigits(part))
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
