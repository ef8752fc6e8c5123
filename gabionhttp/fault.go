package gabionhttp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/policy"
)

// Fault is one thing that goes wrong on purpose, in the words of the faults of a scenario
// (docs/lab-reference.md). The zero Fault injects nothing.
type Fault struct {
	// Kind is what goes wrong: down, black_hole, reset, slow, errors, lost_answers,
	// cut_body or slow_body.
	Kind string

	// Share is how many requests meet it, from 0 to 1. Zero means all.
	Share float64

	// Status is what errors answer, from 400 to 599. Zero means 503, or 500 with
	// AfterWork.
	Status int

	// RetryAfter is what errors say of when to come again, rounded up to a second. Zero
	// says nothing.
	RetryAfter time.Duration

	// Add is how much longer slow or slow_body takes, at most ten minutes.
	Add time.Duration

	// AfterWork makes errors come when the request was sent and answered.
	AfterWork bool
}

// The kinds of faults, and the keys that each may have; one with an exclamation mark it needs.
var faultKinds = map[string]string{
	"down": "share", "black_hole": "share", "reset": "share", "slow": "share add!", "errors": "share status retry_after after_work",
	"lost_answers": "share", "cut_body": "share", "slow_body": "share add!",
}

// The bounds of what a header may ask for.
const (
	maxFaultText = 1000
	maxFaults    = 8
	maxAdd       = 10 * time.Minute
)

// String returns the fault as [ParseFaults] reads it.
func (f Fault) String() string {
	s := f.Kind
	if f.Status != 0 {
		s += "; status=" + strconv.Itoa(f.Status)
	}
	if f.Share > 0 {
		s += "; share=" + strconv.FormatFloat(100*f.Share, 'f', -1, 64) + "%"
	}
	if f.RetryAfter > 0 {
		s += "; retry_after=" + policy.FormatDuration(f.RetryAfter)
	}
	if f.Add > 0 {
		s += "; add=" + policy.FormatDuration(f.Add)
	}
	if f.AfterWork {
		s += "; after_work=true"
	}
	return s
}

// ParseFaults reads faults with commas between them, at most eight:
//
//	errors; status=503; share=20%, slow; add=200ms; share=5%
//
// The error points to the mistake. An empty text means no faults.
func ParseFaults(text string) (all []Fault, err error) {
	if len(text) > maxFaultText {
		return nil, fmt.Errorf("gabionhttp: faults of %d bytes: %d are the most", len(text), maxFaultText)
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	at := 0
	for part := range strings.SplitSeq(text, ",") {
		f, bad, reason, proposal := parseFault(part)
		if reason == "" && len(all) == maxFaults {
			reason, proposal = fmt.Sprintf("more than %d faults", maxFaults), "remove one"
		}
		if reason != "" {
			return nil, &faultError{text, at + bad, reason, proposal}
		}
		all = append(all, f)
		at += len(part) + 1
	}
	return all, nil
}

// faultError is a mistake at a place of a text.
type faultError struct {
	text             string
	at               int
	reason, proposal string
}

// Error implements error.
func (e *faultError) Error() string {
	shown := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, e.text)
	column := len([]rune(e.text[:e.at]))
	return fmt.Sprintf("gabionhttp: %s\n  | %s\n  | %s^ %s", e.reason, shown, strings.Repeat(" ", column), e.proposal)
}

// parseFault reads one fault, or says what is wrong and where.
func parseFault(text string) (f Fault, at int, reason, proposal string) {
	var written []string
	for i, part := range strings.Split(text, ";") {
		start := at + len(part) - len(strings.TrimLeft(part, " \t"))
		at += len(part) + 1
		part = strings.TrimSpace(part)
		if i == 0 {
			if _, known := faultKinds[part]; !known {
				return f, start, fmt.Sprintf("unknown fault %.40q", part), suggest.For(part, kindNames(), "write one of "+strings.Join(kindNames(), ", "))
			}
			f.Kind = part
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		allowed := strings.Fields(strings.ReplaceAll(faultKinds[f.Kind], "!", ""))
		switch {
		case !slices.Contains(allowed, key):
			return f, start, fmt.Sprintf("%s has no key %.40q", f.Kind, key), suggest.For(key, allowed, "it has "+strings.Join(allowed, ", "))
		case !ok:
			return f, start, key + " has no value", "write " + key + "=…"
		case slices.Contains(written, key):
			return f, start, key + " stands there twice", "remove one"
		}
		written = append(written, key)
		if reason, proposal = f.set(key, value); reason != "" {
			return f, start, reason, proposal
		}
	}
	for need := range strings.FieldsSeq(faultKinds[f.Kind]) {
		if key, must := strings.CutSuffix(need, "!"); must && !slices.Contains(written, key) {
			return f, 0, f.Kind + " needs " + key, "write " + f.Kind + "; " + key + "=200ms"
		}
	}
	return f, 0, "", ""
}

func kindNames() (names []string) {
	for name := range faultKinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// set reads the value of a key.
func (f *Fault) set(key, value string) (reason, proposal string) {
	switch key {
	case "share":
		var r policy.Ratio
		if err := r.UnmarshalText([]byte(value)); err != nil || r <= 0 || r > 1 {
			return fmt.Sprintf("%.40q is no share", value), "write one above 0% and at most 100%, such as share=20%"
		}
		f.Share = float64(r)
	case "status":
		n, err := strconv.Atoi(value)
		if err != nil || n < 400 || n > 599 {
			return fmt.Sprintf("%.40q is no status of an error", value), "write 400 to 599"
		}
		f.Status = n
	case "after_work":
		if value != "true" && value != "false" {
			return fmt.Sprintf("%.40q is neither true nor false", value), "write after_work=true"
		}
		f.AfterWork = value == "true"
	default:
		d, err := policy.ParseDuration(value)
		if err != nil || d <= 0 || d > maxAdd {
			return fmt.Sprintf("%.40q is no duration of at most %s", value, policy.FormatDuration(maxAdd)), "write one with its unit, such as " + key + "=200ms"
		}
		if key == "add" {
			f.Add = d
		} else {
			f.RetryAfter = d
		}
	}
	return "", ""
}

// status is what errors answer.
func (f *Fault) status() int {
	switch {
	case f.Status > 0:
		return f.Status
	case f.AfterWork:
		return 500
	}
	return 503
}
