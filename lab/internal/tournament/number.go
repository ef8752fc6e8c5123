package tournament

import (
	"math"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/stat"
)

// show spells a number of a column as tables do: shares in percent, times in seconds.
func (c column) show(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	switch c {
	case answered, trouble:
		return fixed(100*x, 2)
	case failing:
		return fixed(x, 3)
	case recovery:
		return fixed(x, 1)
	}
	return fixed(x, 2)
}

// say spells a number of a column with its unit.
func (c column) say(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return c.show(x) + c.unit()
}

// unit is what follows a number of a column, on the same line as it.
func (c column) unit() string {
	switch c {
	case answered, trouble:
		return "\u00a0%"
	case failing, recovery:
		return "\u00a0s"
	}
	return ""
}

// fixed spells a number with a fixed number of digits after the point, and no minus before a zero.
func fixed(x float64, digits int) string {
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

// percent spells a share.
func percent(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x >= 0.9995:
		return "100"
	}
	return fixed(100*x, 1)
}

// sign marks what is resolved: + for better than the first entrant, - for worse.
func sign(v stat.Verdict) string { return [...]string{" ", "+", "-"}[v] }

// columnOf returns the column of a name.
func columnOf(word string) column {
	for k := range columns {
		if words[k] == word {
			return k
		}
	}
	return answered
}

// Sentence says a loss in one line.
func (l *Loss) Sentence() string {
	k := columnOf(l.Of)
	s := l.World + ": " + l.Of + " " + k.say(l.Ours) + ", and " + l.To + " " + k.say(l.Theirs)
	if k == answered {
		s += ", with a load of " + load.show(l.OurLoad) + " and " + load.show(l.TheirLoad)
	}
	switch {
	case l.Others == 1:
		s += "; one more is better"
	case l.Others > 1:
		s += "; " + strconv.Itoa(l.Others) + " more are better"
	}
	return s
}
