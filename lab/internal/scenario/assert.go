package scenario

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// assertion is a line such as "amplification(db) <= 1.2 during faults":
//
//	metric [ "(" name ")" ] op value [ quantile ] [ phase ]
//
// where op is <=, >=, <, > or ==; a quantile is p80, of the runs; and a phase is
// before, during, during faults or after. Without a quantile the mean of the runs
// is meant, of recovery and retry_tail their median, and of stuck the share of runs.
type assertion struct {
	text     string
	key, of  string
	op       string
	value    float64
	unit     string
	quantile float64 // 0 means none
	phase    string
}

// The words of an assertion.
var (
	operators = []string{"<=", ">=", "<", ">", "=="}
	phases    = []string{"before", "during", "after"}
)

// assertionPattern is what an assertion looks like, for the schema.
func assertionPattern() string {
	var ops []string
	for _, op := range operators {
		ops = append(ops, regexp.QuoteMeta(op))
	}
	name := strings.Trim(nameForm.String(), "^$")
	keys := strings.Replace(strings.Join(metricKeys(), "|"), ResentKey+"503", ResentKey+"([45][0-9][0-9]|"+strings.Join(outcome.CodeWords(), "|")+"|"+outcome.Reset+"|"+outcome.Refused+"|"+outcome.Timeout+")", 1)
	return "^ *(" + keys + `)( *\( *` + name + ` *\))? *(` + strings.Join(ops, "|") + ") *[0-9][^ ]*( +p" + numberPattern + ")?( +(" + strings.Join(phases, "|") + ")( +(the +)?faults)?)? *$"
}

var assertionType = reflect.TypeFor[assertion]()

// vocabulary is what assertions may speak of.
type vocabulary struct {
	defs   []def
	names  []string // services and fleets
	phases bool     // there is a time of trouble
	before bool     // and one before it
	at     int      // where in the text the last problem is
}

func (v *vocabulary) know(f *File) {
	v.defs = slices.Concat(f.defs(), ofRun)
	for _, s := range f.services {
		v.names = append(v.names, s.name)
	}
	for _, c := range f.fleets {
		v.names = append(v.names, c.name)
	}
	from, to := f.trouble()
	v.phases, v.before = to > from, from > f.warmup
}

// assertion reads one line, and puts the caret where it is wrong.
func (r *reader) assertion(node yamlstrict.Node) {
	var a assertion
	r.words.at = 0
	_, found := node.Decode(&a)
	for _, f := range found {
		line := []rune(f.Snippet)
		if f.Col <= len(line) && (line[f.Col-1] == '"' || line[f.Col-1] == '\'') {
			f.Col++
		}
		f.Col += r.words.at
		f.Reason = fmt.Sprintf("assert %d: %s", len(r.file.asserts)+1, f.Reason)
		r.found = append(r.found, f)
	}
	r.file.asserts = append(r.file.asserts, a)
}

// cursor reads an assertion from left to right.
type cursor struct {
	rest string
	at   int
}

func (c *cursor) space() {
	trimmed := strings.TrimLeft(c.rest, " ")
	c.at += len(c.rest) - len(trimmed)
	c.rest = trimmed
}

// take returns the longest beginning that consists of what in holds.
func (c *cursor) take(in func(r rune) bool) string {
	c.space()
	end := strings.IndexFunc(c.rest, func(r rune) bool { return !in(r) })
	if end < 0 {
		end = len(c.rest)
	}
	word := c.rest[:end]
	c.rest, c.at = c.rest[end:], c.at+end
	return word
}

func letter(r rune) bool {
	return r == '_' || r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
}
func sign(r rune) bool    { return strings.ContainsRune("<>=!", r) }
func inWord(r rune) bool  { return r != ' ' }
func inParen(r rune) bool { return r != ')' }

// parse reads an assertion; v.at is where it is wrong.
func (v *vocabulary) parse(text string) (any, string, string) {
	c := &cursor{rest: text}
	a := assertion{text: text}
	if len(text) > 200 {
		return nil, "is too long", "200 characters are the most"
	}
	for _, step := range []func(*cursor, *assertion) (string, string){v.subject, v.object, v.operator, v.bound, v.tail} {
		c.space()
		v.at = c.at
		if problem, proposal := step(c, &a); problem != "" {
			return nil, problem, proposal
		}
	}
	return a, "", ""
}

func (v *vocabulary) keys() (keys []string) {
	for _, d := range v.defs {
		if !slices.Contains(keys, d.key) {
			keys = append(keys, d.key)
		}
	}
	return keys
}

func (v *vocabulary) subject(c *cursor, a *assertion) (string, string) {
	a.key = c.take(letter)
	keys := v.keys()
	if slices.Contains(keys, a.key) {
		return "", ""
	}
	return fmt.Sprintf("has no metric %q", a.key), suggest.For(a.key, keys, "use one of "+strings.Join(keys, ", "))
}

func (v *vocabulary) object(c *cursor, a *assertion) (string, string) {
	if strings.HasPrefix(c.rest, "(") {
		c.rest, c.at = c.rest[1:], c.at+1
		v.at = c.at
		a.of = strings.TrimSpace(c.take(inParen))
		if c.rest == "" {
			return "has a bracket that is open", "write )"
		}
		c.rest, c.at = c.rest[1:], c.at+1
		if !slices.Contains(v.names, a.of) {
			return fmt.Sprintf("speaks of %q, which is neither a service nor a fleet", a.of), oneOf(a.of, v.names)
		}
	}
	i := slices.IndexFunc(v.defs, func(d def) bool { return d.key == a.key && d.of == a.of })
	if i < 0 {
		return fmt.Sprintf("has no %s of %q", a.key, a.of), "write " + a.key + " alone, or of another"
	}
	a.unit = v.defs[i].unit
	return "", ""
}

func (v *vocabulary) operator(c *cursor, a *assertion) (string, string) {
	a.op = c.take(sign)
	if !slices.Contains(operators, a.op) {
		return "compares with nothing known", "write <=, >=, <, > or =="
	}
	return "", ""
}

func (v *vocabulary) bound(c *cursor, a *assertion) (problem, proposal string) {
	text := c.take(inWord)
	switch a.unit {
	case Seconds:
		var d any
		if d, problem, proposal = parseInstant(text); problem == "" {
			a.value = time.Duration(d.(instant)).Seconds()
		}
	case Share:
		if text == "0%" || text == "0" {
			return "", ""
		}
		var p any
		if p, problem, proposal = parsePercent(text); problem == "" {
			a.value = float64(p.(percent))
		}
	default:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.Trim(text, "0123456789.") != "" {
			return fmt.Sprintf("has %q where a number belongs", text), "write one such as 1.2"
		}
		a.value = f
	}
	if problem != "" {
		return fmt.Sprintf("has %q, which %s", text, problem), proposal
	}
	return "", ""
}

// tail reads a quantile and a phase.
func (v *vocabulary) tail(c *cursor, a *assertion) (string, string) {
	word := c.take(inWord)
	if digits, ok := strings.CutPrefix(word, "p"); ok {
		p, err := strconv.ParseFloat(digits, 64)
		if err != nil || p <= 0 || p >= 100 {
			return fmt.Sprintf("has an unknown quantile %q", word), "write p50, p80, p95 …"
		}
		if a.key == "stuck" || a.unit == Count && a.op == "==" {
			return "is about all runs, and has no quantile", "remove " + word
		}
		a.quantile = p / 100
		c.space()
		v.at = c.at
		word = c.take(inWord)
	}
	if word == "" {
		return "", ""
	}
	switch {
	case !slices.Contains(phases, word):
		return fmt.Sprintf("has %q at its end", word), "write a quantile such as p80, and before, during or after"
	case unphased[a.key]:
		return a.key + " is of the whole run", "remove " + word
	case !v.phases:
		return "there is no time of trouble to be " + word, "add a fault, or during: 1m..2m"
	case word == "before" && !v.before:
		return "there is no time before the trouble", "let it begin later"
	}
	a.phase = word
	if rest := strings.TrimSpace(c.rest); rest != "" && rest != "faults" && rest != "the faults" {
		c.space()
		v.at = c.at
		return fmt.Sprintf("has %q at its end", rest), "write during faults, or during alone"
	}
	return "", ""
}

// unphased are the metrics that have no phases.
var unphased = map[string]bool{"recovery": true, "retry_tail": true, "peak": true, "stuck": true}

// judge says whether the assertion holds, by the values of its metric.
func (a *assertion) judge(values []float64) Verdict {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	var i stat.Interval
	switch {
	case a.key == "stuck":
		k := 0
		for _, x := range values {
			k += int(x)
		}
		i = stat.Share(k, len(values))
	case a.quantile > 0:
		i = stat.Quantile(values, a.quantile)
	default:
		i = middle(a.key, values)
	}
	broken := 0
	for _, x := range values {
		if a.breaks(x) {
			broken++
		}
	}
	v := Verdict{Text: a.text, Of: a.of, Measured: estimate(i), Unit: a.unit, Holds: a.holds(i), Breaks: estimate(stat.Share(broken, len(values)))}
	if v.Holds == Unsure && broken > 0 && broken == len(values) {
		v.Holds = No // however few they are: it never held
	}
	return v
}

// breaks reports whether one run alone breaks the assertion.
func (a *assertion) breaks(x float64) bool {
	return a.holds(stat.Interval{Value: x, Low: x, High: x}) == No
}

// middle is the mean of runs, or the median where some are infinite by nature.
func middle(key string, values []float64) stat.Interval {
	if byMedian(key) {
		return stat.Median(values)
	}
	return stat.Mean(values)
}

// byMedian reports whether some values of a metric are infinite by nature.
func byMedian(key string) bool { return key == "recovery" || key == "retry_tail" }

func (a *assertion) holds(i stat.Interval) Holds {
	x := a.value
	var yes, no bool
	switch a.op {
	case "<=":
		yes, no = i.High <= x, i.Low > x
	case "<":
		yes, no = i.High < x, i.Low >= x
	case ">=":
		yes, no = i.Low >= x, i.High < x
	case ">":
		yes, no = i.Low > x, i.High <= x
	case "==":
		yes, no = i.Low == x && i.High == x, x < i.Low || x > i.High
	}
	switch {
	case math.IsNaN(i.Value):
		return Unsure
	case yes:
		return Yes
	case no:
		return No
	}
	return Unsure
}
