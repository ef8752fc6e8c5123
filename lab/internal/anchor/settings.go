package anchor

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setting is one parameter of a model.
type setting struct {
	key      string
	standard string // the default, as it would be written
	says     string
	kind     kind
}

// kind is what a parameter can be.
type kind struct {
	says string
	read func(string) (any, error)
}

// values are the parameters of one run, by key. The accessors are for keys and
// kinds that the model declares; others are a fault of the model.
type values map[string]any

func (v values) count(key string) int              { return v[key].(int) }
func (v values) number(key string) float64         { return v[key].(float64) }
func (v values) duration(key string) time.Duration { return v[key].(time.Duration) }
func (v values) word(key string) string            { return v[key].(string) }
func (v values) yes(key string) bool               { return v[key].(bool) }

func (m *model) read(given map[string]string) (values, error) {
	v := values{}
	var keys []string
	for _, s := range m.settings {
		text, ok := given[s.key]
		if !ok {
			text = s.standard
		}
		x, err := s.kind.read(text)
		if err != nil {
			return nil, &SettingError{m.name, s.key + "=" + text, err.Error()}
		}
		v[s.key] = x
		keys = append(keys, s.key)
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(keys, key) {
			return nil, &SettingError{m.name, key + "=" + given[key], "there is no such setting; " + proposal(key, keys)}
		}
	}
	return v, nil
}

// whole is a whole number from low to high.
func whole(low, high int) kind {
	says := fmt.Sprintf("a whole number from %d to %d", low, high)
	return kind{says, func(s string) (any, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return nil, fmt.Errorf("want %s", says)
		}
		return n, nil
	}}
}

// number is a number from low to high, which may be written as a percentage.
func number(low, high float64) kind {
	says := fmt.Sprintf("a number from %v to %v", low, high)
	return kind{says, func(s string) (any, error) {
		text, percent := strings.CutSuffix(s, "%")
		x, err := strconv.ParseFloat(text, 64)
		if percent {
			x /= 100
		}
		if err != nil || !(x >= low && x <= high) {
			return nil, fmt.Errorf("want %s", says)
		}
		return x, nil
	}}
}

// span is a duration from low to high. A bare 0 and "none" are no time.
func span(low, high time.Duration) kind {
	says := fmt.Sprintf("a duration from %v to %v, such as 15ms", low, high)
	return kind{says, func(s string) (any, error) {
		if s == "none" || s == "off" {
			s = "0"
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < low || d > high {
			return nil, fmt.Errorf("want %s", says)
		}
		return d, nil
	}}
}

// oneOf is one of some words.
func oneOf(words ...string) kind {
	return kind{strings.Join(words, ", "), func(s string) (any, error) {
		if !slices.Contains(words, s) {
			return nil, errors.New(proposal(s, words))
		}
		return s, nil
	}}
}

// boolean is true or false.
var boolean = kind{"true or false", func(s string) (any, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return nil, errors.New("want true or false")
	}
	return b, nil
}}

// percentile is a share above 0 and below 1, or a percentage from 1 on.
var percentile = kind{"a share such as 0.999, or a percentage such as 99.9", func(s string) (any, error) {
	text, _ := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(text, 64)
	if x >= 1 || text != s {
		x /= 100
	}
	if err != nil || !(x > 0 && x < 1) {
		return nil, errors.New("want a share such as 0.999, or a percentage such as 99.9")
	}
	return x, nil
}}

const (
	aDay      = 24 * time.Hour
	mostTimes = 100_000 // replications, clients: more would run for hours
)

// seeded is the setting that all models have.
var seeded = setting{"seed", "1", "the seed of the first run; each further run has the next", whole(0, math.MaxInt32)}

func runs(standard string) setting {
	return setting{"runs", standard, "independent runs", whole(1, mostTimes)}
}
