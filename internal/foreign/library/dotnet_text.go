package library

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// spanForm is a TimeSpan: [d.]hh:mm[:ss[.fffffff]], or d:hh:mm:ss; a number alone is days.
var spanForm = regexp.MustCompile(`^(-)?(?:(\d{1,8})[.:])?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,7}))?)?$`)

var clockForm = regexp.MustCompile(`^(-)?()(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,7}))?$`)

// anySpan takes a time as .NET writes it: 00:00:30.
func anySpan(v *foreign.Value) (reason, proposal string) {
	text := strings.TrimSpace(v.Tree.Text)
	const such = "write one such as 00:00:30"
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && v.Tree.Kind != yamlstrict.Map {
		if n == 0 {
			return "", ""
		}
		return text + " alone is a number of days", "write 00:00:" + text + " for seconds"
	}
	m := spanForm.FindStringSubmatch(text)
	if strings.Count(text, ":") == 2 && strings.Count(strings.SplitN(text, ":", 2)[0], ".") == 0 {
		m = clockForm.FindStringSubmatch(text) // three numbers are hours, minutes and seconds
	}
	if m == nil {
		return strconv.Quote(text) + " is no time", such
	}
	part := func(i int) time.Duration { n, _ := strconv.ParseInt(m[i], 10, 64); return time.Duration(n) }
	if part(3) > 23 || part(4) > 59 || part(5) > 59 {
		return strconv.Quote(text) + " is no time", such
	}
	days := min(part(2), 10_000)
	fraction, _ := strconv.ParseFloat("0."+m[6]+"0", 64)
	v.Span = days*day + part(3)*time.Hour + part(4)*time.Minute + part(5)*time.Second + time.Duration(math.Round(fraction*1e7))*100
	if v.Text = text; m[1] != "" {
		v.Number = -1 // endless, for hedging
	}
	return "", ""
}

func timeSpan(least, most time.Duration) foreign.Shape {
	return func(v *foreign.Value) (reason, proposal string) {
		if reason, proposal = anySpan(v); reason != "" {
			return reason, proposal
		}
		if v.Number < 0 {
			return strconv.Quote(v.Text) + " is negative", "write one such as 00:00:30"
		}
		return foreign.SpanWithin(func(*foreign.Value) (string, string) { return "", "" }, least, most)(v)
	}
}

// foldedWord takes a word in any case, or its number, as .NET does for an enumeration.
func foldedWord(words ...string) foreign.Shape {
	return func(v *foreign.Value) (reason, proposal string) {
		for i, w := range words {
			if strings.EqualFold(w, v.Tree.Text) || v.Tree.Text == strconv.Itoa(i) {
				v.Text = w
				return "", ""
			}
		}
		return foreign.OneOf(words...)(v)
	}
}

// plainJSON puts blanks in the place of comments, and of commas that nothing follows: .NET
// takes both. Lines and columns stay.
func plainJSON(text []byte) []byte {
	out := append([]byte(nil), text...)
	comma := -1 // the last one, if nothing but blanks and comments came since
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"' && out[i] != '\n'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			i = blank(out, i)
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c > ' ':
			comma = -1
		}
	}
	return out
}

// blank overwrites the comment that begins at i, and returns its last place.
func blank(out []byte, i int) int {
	end := len(out)
	if out[i+1] == '/' {
		if n := bytes.IndexByte(out[i:], '\n'); n >= 0 {
			end = i + n
		}
	} else if n := bytes.Index(out[i+2:], []byte("*/")); n >= 0 {
		end = i + 2 + n + 2
	}
	for j := i; j < end; j++ {
		if out[j] != '\n' && out[j] != '\r' {
			out[j] = ' '
		}
	}
	return end - 1
}
