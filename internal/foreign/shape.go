package foreign

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// Shape reads a value, or says what is wrong with it and what to write instead.
type Shape func(*Value) (reason, proposal string)

// Word takes any text.
func Word(v *Value) (reason, proposal string) {
	if v.Tree.Kind != yamlstrict.Text {
		return "wants a text, not " + kindName(v.Tree), `put it in quotes: "` + clip(v.Tree.Text, 40) + `"`
	}
	v.Text = v.Tree.Text
	return "", ""
}

// OneOf takes one of some words.
func OneOf(words ...string) Shape {
	return func(v *Value) (reason, proposal string) {
		if reason, proposal = Word(v); reason != "" {
			return reason, proposal
		}
		if !slices.Contains(words, v.Text) {
			return "has no " + kindName(v.Tree), suggest.For(v.Text, words, "write one of "+strings.Join(words, ", "))
		}
		return "", ""
	}
}

// Commas takes a text with words between commas.
func Commas(v *Value) (reason, proposal string) {
	if reason, proposal = Word(v); reason != "" {
		return reason, proposal
	}
	for word := range strings.SplitSeq(v.Text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			v.Words = append(v.Words, word)
		}
	}
	return "", ""
}

// Flag takes true and false.
func Flag(v *Value) (reason, proposal string) {
	if v.Tree.Kind != yamlstrict.Bool {
		return "wants true or false, not " + kindName(v.Tree), "write true or false"
	}
	v.On = strings.EqualFold(v.Tree.Text, "true")
	return "", ""
}

// Whole takes a whole number within bounds.
func Whole(least, most float64) Shape {
	return func(v *Value) (reason, proposal string) {
		if reason, proposal = Decimal(least, most)(v); reason == "" && v.Number != math.Trunc(v.Number) {
			return "wants a whole number, not " + kindName(v.Tree), ""
		}
		return reason, proposal
	}
}

// Decimal takes a number within bounds.
func Decimal(least, most float64) Shape {
	return func(v *Value) (reason, proposal string) {
		n, err := strconv.ParseFloat(v.Tree.Text, 64)
		spell := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
		switch {
		case v.Tree.Kind != yamlstrict.Number || err != nil || math.IsNaN(n) || math.IsInf(n, 0):
			if bare, percent := strings.CutSuffix(v.Tree.Text, "%"); percent {
				return "wants a number, not " + kindName(v.Tree), "write " + clip(bare, 40) + ", without the sign"
			}
			return "wants a number, not " + kindName(v.Tree), "write it without quotes"
		case n < least && least == 0:
			return kindName(v.Tree) + " is negative", "write 0 or more"
		case n < least:
			return kindName(v.Tree) + " is too small", "write at least " + spell(least)
		case n > most:
			return kindName(v.Tree) + " is too large", "write at most " + spell(most)
		}
		v.Number = n
		return "", ""
	}
}

// Loosely takes what a shape of numbers takes, in quotes as well, as protobuf's JSON does.
func Loosely(shape Shape) Shape {
	return func(v *Value) (reason, proposal string) {
		was := v.Tree
		if was.Kind == yamlstrict.Text {
			bare := *was
			bare.Kind = yamlstrict.Number
			v.Tree = &bare
		}
		reason, proposal = shape(v)
		v.Tree = was
		return reason, proposal
	}
}

// GoSpan takes a time as Go writes it: 1h30m, 250ms.
func GoSpan(v *Value) (reason, proposal string) { return span(v, time.ParseDuration, "250ms") }

// ProtoSpan takes a time as protobuf's JSON writes it: seconds with at most nine decimals, and an s.
func ProtoSpan(v *Value) (reason, proposal string) { return span(v, protoSpan, "0.25s") }

// ISOSpan takes a time as ISO 8601 writes it: PT1M30S.
func ISOSpan(v *Value) (reason, proposal string) { return span(v, isoSpan, "PT0.25S") }

// SpanWithin is a shape of times within bounds.
func SpanWithin(shape Shape, least, most time.Duration) Shape {
	return func(v *Value) (reason, proposal string) {
		switch reason, proposal = shape(v); {
		case reason != "":
			return reason, proposal
		case v.Span < least:
			return kindName(v.Tree) + " is too short", "write at least " + least.String()
		case v.Span > most:
			return kindName(v.Tree) + " is too long", "write at most " + most.String()
		}
		return "", ""
	}
}

func span(v *Value, parse func(string) (time.Duration, error), such string) (reason, proposal string) {
	if v.Tree.Kind != yamlstrict.Text && v.Tree.Kind != yamlstrict.Number {
		return "wants a time, not " + kindName(v.Tree), "write one such as " + such
	}
	text := v.Tree.Text
	d, err := parse(text)
	if v.Tree.Kind == yamlstrict.Number && text != "0" || err != nil {
		if _, bare := strconv.ParseFloat(text, 64); bare == nil {
			return kindName(v.Tree) + " has no unit", "write one such as " + such
		}
		if other, err := time.ParseDuration(text); err == nil && other >= 0 { // a time, in another form
			such = strings.Replace(such, "0.25", strconv.FormatFloat(other.Seconds(), 'f', -1, 64), 1)
			return kindName(v.Tree) + " is not written as times are here", "write " + such
		}
		return kindName(v.Tree) + " is no time", "write one such as " + such
	}
	if d < 0 {
		return kindName(v.Tree) + " is negative", "write one such as " + such
	}
	v.Span, v.Text = d, text
	return "", ""
}

var (
	protoForm = regexp.MustCompile(`^(-?[0-9]{1,12})(\.[0-9]{1,9})?s$`)
	isoForm   = regexp.MustCompile(`^P(?:([0-9]{1,6})D)?(?:T(?:([0-9]{1,6})H)?(?:([0-9]{1,6})M)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?$`)
)

func protoSpan(s string) (time.Duration, error) {
	if !protoForm.MatchString(s) {
		return 0, strconv.ErrSyntax
	}
	return time.ParseDuration(s)
}

func isoSpan(s string) (time.Duration, error) {
	m := isoForm.FindStringSubmatch(strings.ToUpper(s))
	if m == nil || m[1]+m[2]+m[3]+m[4] == "" {
		return 0, strconv.ErrSyntax
	}
	var sum float64
	for i, unit := range []float64{86400, 3600, 60, 1} {
		if n, err := strconv.ParseFloat(m[i+1], 64); err == nil {
			sum += n * unit
		}
	}
	if sum *= float64(time.Second); sum < math.MaxInt64 {
		return time.Duration(math.Round(sum)), nil
	}
	return 0, strconv.ErrRange
}
