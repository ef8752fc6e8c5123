package past

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// What the series of gabionprom count, as far as a replay needs it.
const (
	ofCalls    = "gabion_calls_total"
	ofAttempts = "gabion_attempts_total"
	ofRepeats  = "retries and hedges, of gabion_attempts_total"
	ofRetries  = "gabion_retries_total"
	callTook   = "gabion_call_duration_seconds"
	tryTook    = "gabion_attempt_duration_seconds"
)

// key is a thing that is counted: of histograms, a bucket.
type key struct {
	what, label string
	low, high   float64 // in seconds; low of a classic bucket is below 0: it counts all that is shorter
}

// A scrape is what was counted until a time, in milliseconds since 1970, since the one before.
type scrape map[key]float64

// rangeData is what is read of the answer of Prometheus.
type rangeData struct {
	o         Options
	scrapes   map[int64]scrape
	starts    []start
	names     map[string]bool // of dependencies
	instances lives
	nameless  bool
	seen      map[string]bool // what is counted of the dependency

	families []family // of others
	others   map[int]*rangeData
	strange  map[string]bool // names that none has
	servers  bool            // the servers' side was left out

	of    *family         // nil for gabionprom's
	mixed bool            // durations don't say of which result
	odd   map[string]bool // statuses that say nothing
}

// start is the first value of a series, which counts if the data begins earlier.
type start struct {
	at int64
	of key
	n  float64
}

// series is one element of a result.
type series struct {
	Metric     map[string]string `json:"metric"`
	Values     []sample          `json:"values"`
	Histograms []native          `json:"histograms"`
}

// sample is a time and a value.
type sample struct {
	at int64
	x  float64
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *sample) UnmarshalJSON(text []byte) error {
	var at float64
	var value string
	if err := json.Unmarshal(text, &[]any{&at, &value}); err != nil {
		return fmt.Errorf("a value is no pair of a time and a number in quotes: %.60s", text)
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || !(at >= 0 && at < 9e9) {
		return fmt.Errorf("a value is no pair of a time and a number in quotes: %.60s", text)
	}
	s.at, s.x = int64(math.Round(at*1000)), x
	return nil
}

// native is a time and a native histogram.
type native struct {
	at      int64
	buckets []bucket
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *native) UnmarshalJSON(text []byte) error {
	var at float64
	var body struct{ Buckets [][]any }
	if err := json.Unmarshal(text, &[]any{&at, &body}); err != nil || !(at >= 0 && at < 9e9) {
		return fmt.Errorf("a histogram is no pair of a time and buckets: %.60s", text)
	}
	h.at = int64(math.Round(at * 1000))
	for _, b := range body.Buckets {
		made, ok := bucketOf(b)
		if !ok {
			return fmt.Errorf("a bucket is not [rule, from, to, count]: %.60v", b)
		}
		h.buckets = append(h.buckets, made)
	}
	return nil
}

type bucket struct{ low, high, n float64 }

func bucketOf(b []any) (made bucket, ok bool) {
	if len(b) != 4 {
		return made, false
	}
	for i, to := range []*float64{&made.low, &made.high, &made.n} {
		text, isText := b[i+1].(string)
		x, err := strconv.ParseFloat(text, 64)
		if !isText || err != nil || math.IsNaN(x) {
			return made, false
		}
		*to = x
	}
	made.low = max(made.low, 0) // the bucket of zero reaches below
	return made, made.high > made.low
}

// decode reads all answers of a file, one series at a time.
func (d *rangeData) decode(in io.Reader) error {
	dec := json.NewDecoder(in)
	for n := 0; ; n++ {
		err := d.answer(dec)
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			return nil
		case err != nil:
			return fmt.Errorf("%s, at byte %d: %w", d.o.Name, dec.InputOffset(), err)
		}
	}
}

// answer reads one answer: an object with status and data.
func (d *rangeData) answer(dec *json.Decoder) error {
	return object(dec, func(name string) error {
		switch name {
		case "data":
			return object(dec, func(name string) error {
				switch name {
				case "resultType":
					var kind string
					if err := dec.Decode(&kind); err != nil {
						return err
					}
					if kind != "matrix" {
						return fmt.Errorf("it is a %s and no matrix: ask /api/v1/query_range, with start, end and step", kind)
					}
					return nil
				case "result":
					return d.result(dec)
				}
				return dec.Decode(new(any))
			})
		case "error":
			var text string
			if err := dec.Decode(&text); err != nil {
				return err
			}
			return fmt.Errorf("Prometheus answered an error: %.200s", text) //nolint:staticcheck // a name
		}
		return dec.Decode(new(any))
	})
}

// object calls do for each name of an object. do reads the value.
func object(dec *json.Decoder, do func(name string) error) error {
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("%v is no object", open)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return unexpected(err)
		}
		text, ok := name.(string)
		if !ok {
			return fmt.Errorf("%v is no name", name)
		}
		if err := do(text); err != nil {
			return unexpected(err)
		}
	}
	_, err = dec.Token()
	return unexpected(err)
}

// unexpected makes an end in the middle of something an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *rangeData) result(dec *json.Decoder) error {
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return errors.Join(errors.New("result is no list"), err)
	}
	for dec.More() {
		var s series
		if err := dec.Decode(&s); err != nil {
			return err
		}
		d.series(&s)
	}
	_, err := dec.Token()
	return err
}

// series adds one series.
func (d *rangeData) series(s *series) {
	name, of := s.Metric["__name__"], s.Metric["dependency"]
	k := key{what: strings.TrimSuffix(name, "_bucket"), low: -1}
	switch name {
	case "":
		d.nameless = true
		return
	case ofCalls:
		k.label = s.Metric["outcome"]
	case ofAttempts:
		if k.label = s.Metric["result"]; s.Metric["kind"] != "first" {
			k.what = ofRepeats
		}
	case tryTook, callTook:
		k.label = s.Metric["result"]
	case ofRetries:
		k.label = s.Metric["code"]
	case tryTook + "_bucket", callTook + "_bucket":
		high, err := strconv.ParseFloat(s.Metric["le"], 64)
		if err != nil || math.IsNaN(high) {
			return
		}
		k.label, k.high = s.Metric["result"], high
	default:
		d.foreign(s)
		return
	}
	if of == "" || !d.takes(of) {
		return
	}
	d.seen[strings.TrimSuffix(name, "_bucket")] = true
	d.instances.all(s)
	d.values(s.Values, k)
	d.histograms(s.Histograms, k)
}

// takes notes the name of a dependency, and reports whether it is the one that is meant.
func (d *rangeData) takes(of string) bool {
	d.names[of] = true
	return of == d.o.Dependency || d.o.Dependency == "" && len(d.names) == 1
}

// values adds the samples of a counter.
func (d *rangeData) values(all []sample, k key) {
	last := math.NaN()
	for _, v := range all {
		if !math.IsNaN(v.x) && !math.IsInf(v.x, 0) {
			d.counted(v.at, k, last, v.x)
			last = v.x
		}
	}
}

// histograms adds native histograms, whose buckets come and go.
func (d *rangeData) histograms(all []native, k key) {
	var last map[bucket]float64
	for _, h := range all {
		now := make(map[bucket]float64, len(h.buckets))
		for _, b := range h.buckets {
			k.low, k.high = b.low, b.high
			of := bucket{low: b.low, high: b.high}
			before := math.NaN()
			if last != nil {
				before = last[of] // 0 if it is new
			}
			d.counted(h.at, k, before, b.n)
			now[of] = b.n
		}
		last = now
	}
}

// counted adds what a counter has counted; last is NaN at its begin.
func (d *rangeData) counted(at int64, k key, last, now float64) {
	s := d.scrapes[at]
	if s == nil {
		s = scrape{}
		d.scrapes[at] = s
	}
	switch {
	case math.IsNaN(last):
		d.starts = append(d.starts, start{at, k, now})
	case now < last: // its process began anew
		s[k] += now
	case now > last:
		s[k] += now - last
	}
}

// times are those of the scrapes, in their order. What began later than the first began at 0.
func (d *rangeData) times() []int64 {
	all := slices.Sorted(maps.Keys(d.scrapes))
	for _, s := range d.starts {
		if s.at > all[0] && s.n > 0 {
			d.scrapes[s.at][s.of] += s.n
		}
	}
	d.starts = nil
	return all
}
