package config

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/spelled"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

func init() {
	policyfile.Of = func(f any) policyfile.File { return view{f.(*File)} }
	policyfile.Keys = func() []string { return slices.Clone(allKeys()) }
	policyfile.Set, policyfile.Steps, policyfile.Edit = setKey, steps, edit
}

var allKeys = sync.OnceValue(func() (keys []string) {
	var p policy.Policy
	leaves(reflect.ValueOf(p), "", true, func(path string, _ reflect.Value) {
		for i := range path {
			if section := path[:i]; path[i] == '.' && !slices.Contains(keys, section) {
				keys = append(keys, section)
			}
		}
		keys = append(keys, path)
	})
	return keys
})

// setKey is [policyfile.Set].
func setKey(p policy.Policy, path, value string) (policy.Policy, error) {
	if !slices.Contains(allKeys(), path) {
		return p, unknownKey(path)
	}
	words := strings.Split(path, ".")
	text := strings.Join(words, ": {") + ": " + quoteText(value) + strings.Repeat("}", len(words)-1)
	o := readOptions()
	o.Lookup = func(string) (string, bool) { return "", false }
	doc, found := yamlstrict.Parse(path, []byte(text), o)
	if len(found) == 0 {
		_, found = doc.Decode(&p)
	}
	if len(found) > 0 {
		f := found[0]
		return policy.Policy{}, setError(path, value, strings.TrimPrefix(f.Reason, path+": "), f.Proposal)
	}
	return p, nil
}

// unknownKey says which key was most likely meant.
func unknownKey(path string) error {
	e := &policyfile.SetError{Path: path, Problem: "there is no such key"}
	if now := moved[path]; now != "" {
		e.Proposal = "it is " + now + " now"
		return e
	}
	section, _, _ := strings.Cut(path, ".")
	var under, sections []string
	for _, key := range allKeys() {
		if name, rest, inside := strings.Cut(key, "."); !inside {
			sections = append(sections, key)
		} else if name == section && !strings.Contains(rest, ".") {
			under = append(under, key)
		}
	}
	near := suggest.Nearest(path, allKeys())
	if near == section {
		near = "" // the section is right, and its key is not
	}
	if named := slices.IndexFunc(allKeys(), func(key string) bool { return strings.HasSuffix(key, "."+path) }); named >= 0 {
		near = allKeys()[named]
	}
	switch {
	case near != "":
		e.Proposal = "did you mean " + near + "?"
	case len(under) > 0:
		e.Proposal = "there are " + strings.Join(under, ", ")
	default:
		e.Proposal = "there are " + strings.Join(sections, ", ")
	}
	return e
}

func setError(path, value, problem, proposal string) error {
	return &policyfile.SetError{Path: path, Value: value, Problem: problem, Proposal: proposal}
}

// maxSteps is how many values a range may have.
const maxSteps = 100

// steps is [policyfile.Steps].
func steps(path, from, to string, count int, spacing policyfile.Spacing) ([]string, error) {
	a, err := number(path, from)
	if err != nil {
		return nil, err
	}
	b, err := number(path, to)
	if err != nil {
		return nil, err
	}
	low, high := a.size(), b.size()
	switch {
	case count < 2 || count > maxSteps:
		return nil, setError(path, from+".."+to, fmt.Sprintf("%d steps", count), fmt.Sprintf("write 2 to %d", maxSteps))
	case low >= high:
		return nil, setError(path, from+".."+to, "the range does not rise", "write the smaller value first")
	}
	log := spacing == policyfile.SpacingLog || spacing == policyfile.SpacingOfRange && high >= 10*low
	values := []string{from}
	for i := 1; i < count-1; i++ {
		share := float64(i) / float64(count-1)
		x := low + share*(high-low)
		if log {
			x = low * math.Pow(high/low, share)
		}
		text := a.spelled(twoDigits(x))
		between, err := number(path, text)
		if err == nil && between.size() > low && between.size() < high && text != values[len(values)-1] {
			values = append(values, text)
		}
	}
	return append(values, to), nil
}

// quantity is a value that has a size.
type quantity struct{ reflect.Value }

// number reads a value that has a size.
func number(path, value string) (quantity, error) {
	p, err := setKey(policy.Policy{}, path, value)
	if err != nil {
		return quantity{}, err
	}
	v := reflect.ValueOf(p)
	for word := range strings.SplitSeq(path, ".") {
		v = v.FieldByNameFunc(func(name string) bool { return yamlstrict.Snake(name) == word })
	}
	q := quantity{v}
	if v.Kind() != reflect.Int && v.Kind() != reflect.Int64 && v.Kind() != reflect.Float64 || q.size() <= 0 {
		return q, setError(path, value, "is no end of a range", "write values with commas between them")
	}
	return q, nil
}

func (q quantity) size() float64 {
	if q.CanFloat() {
		return q.Float()
	}
	return float64(q.Int())
}

// spelled writes another size of the same kind of value.
func (q quantity) spelled(size float64) string {
	v := reflect.New(q.Type()).Elem()
	if v.CanFloat() {
		v.SetFloat(size)
	} else {
		v.SetInt(int64(math.Round(size)))
	}
	if _, of := v.Interface().(time.Duration); !of && v.CanInt() {
		return strconv.FormatInt(max(v.Int(), 1), 10)
	}
	return cmp.Or(spelled.Value(v), "0s")
}

// twoDigits rounds to two digits.
func twoDigits(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 1, 64), 64)
	return y
}
