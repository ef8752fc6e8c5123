package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab/internal/review"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// Sweep is what a scenario came to with one value after another of a policy's key. It is
// not changed once it is made, and safe for concurrent use.
type Sweep struct{ sweep *scenario.Sweep }

// Sweep runs the scenario with several values of a key of the policies, each with
// the same random numbers, then with the policies as they are and as the plain client. What is
// KEY=VALUES, such as
//
//	breaker.open=1s,5s,30s       these values
//	breaker.open=1s..30s         six values from the one to the other
//	breaker.open=1s..30s:10      ten
//	breaker.open=1s..30s:10:log  in equal ratios; linear is at equal distances
//	db.breaker.open=1s..30s      of the scenario's policy db only
//
// Left out, a range is in equal ratios if it reaches tenfold. Of the options, those
// that name another side, a map or a client to watch mean nothing here. The error
// names the key where that or a value is wrong, and is else as Run's.
func (s *Scenario) Sweep(ctx context.Context, o Options, what string) (*Sweep, error) {
	if o.Against != nil || len(o.AgainstAs) > 0 || o.Rival != "" || o.Map || o.Watch != "" || o.Record != nil {
		return nil, errors.New("lab: a sweep compares values: it has no other side, no map and no client to watch or to record")
	}
	swept, err := sweepOptions(what)
	if err != nil {
		return nil, err
	}
	o.Alone = true
	if swept.Options, err = o.options(); err != nil {
		return nil, err
	}
	made, err := s.file.RunSweep(ctx, swept)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return &Sweep{made}, nil
}

// usualSteps is how many values a range has that does not say.
const usualSteps = 6

// sweepOptions reads KEY=VALUES.
func sweepOptions(what string) (o scenario.SweepOptions, err error) {
	path, values, ok := strings.Cut(what, "=")
	if !ok || path == "" || values == "" {
		return o, &policyfile.SetError{Path: what, Problem: "is no KEY=VALUES", Proposal: "write one such as breaker.open=1s..30s"}
	}
	o.Key = path
	if !slices.Contains(policyfile.Keys(), path) { // perhaps after a policy's name
		if name, key, dotted := strings.Cut(path, "."); dotted && slices.Contains(policyfile.Keys(), key) && !slices.Contains(policyfile.Keys(), name) {
			o.Policy, o.Key = name, key
		}
	}
	if o.Values, err = valuesOf(o.Key, values); err != nil {
		return o, err
	}
	for i, v := range o.Values {
		if slices.Contains(o.Values[:i], v) {
			return o, &policyfile.SetError{Path: path, Value: values, Problem: v + " is there twice", Proposal: "remove one"}
		}
		if _, err := policyfile.Set(policy.Policy{}, o.Key, v); err != nil {
			return o, err
		}
	}
	return o, nil
}

// valuesOf reads a list or a range.
func valuesOf(key, text string) ([]string, error) {
	from, rest, ranged := strings.Cut(text, "..")
	if !ranged {
		return strings.Split(text, ","), nil
	}
	words := strings.Split(rest, ":")
	steps, spacing := usualSteps, policyfile.SpacingOfRange
	for _, word := range words[1:] {
		switch n, err := strconv.Atoi(word); {
		case word == "log":
			spacing = policyfile.SpacingLog
		case word == "linear":
			spacing = policyfile.SpacingLinear
		case err == nil:
			steps = n
		default:
			return nil, &policyfile.SetError{Path: key, Value: text, Problem: fmt.Sprintf("%q after a range", word), Proposal: "write how many values, log or linear, such as 1s..30s:10:log"}
		}
	}
	if steps > scenario.MaxSweep {
		return nil, &policyfile.SetError{Path: key, Value: text, Problem: fmt.Sprintf("%d values", steps), Proposal: fmt.Sprintf("write at most %d", scenario.MaxSweep)}
	}
	return policyfile.Steps(key, from, words[0], steps, spacing)
}

// Terminal writes the table and for whom which value is best, as text.
func (s *Sweep) Terminal(w io.Writer) error { return review.SweepText(w, s.sweep) }

// Markdown writes the same for the comment of a pull request.
func (s *Sweep) Markdown(w io.Writer) error { return review.SweepMarkdown(w, s.sweep) }

// WriteJSON writes all figures as JSON. Its key version says which keys there are.
func (s *Sweep) WriteJSON(w io.Writer) error {
	return writeJSON(w, s.sweep)
}
