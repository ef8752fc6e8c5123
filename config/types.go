package config

import (
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// words are the types that a file writes as one of a few words.
var words = map[reflect.Type][]string{
	reflect.TypeFor[policy.Trust]():        wordsOf[policy.Trust](),
	reflect.TypeFor[policy.KeyMode]():      wordsOf[policy.KeyMode](),
	reflect.TypeFor[policy.BudgetShape]():  wordsOf[policy.BudgetShape](),
	reflect.TypeFor[policy.Per]():          wordsOf[policy.Per](),
	reflect.TypeFor[policy.GRPCCode]():     wordsOf[policy.GRPCCode](),
	reflect.TypeFor[backoff.Kind]():        wordsOf[backoff.Kind](),
	reflect.TypeFor[policy.EndpointMode](): wordsOf[policy.EndpointMode](),
}

// wordsOf asks a type for its words: the texts of its values from 0 on.
func wordsOf[T interface {
	~uint8
	encoding.TextMarshaler
}]() (words []string) {
	for v := T(0); ; v++ {
		text, err := v.MarshalText()
		if err != nil {
			return words
		}
		words = append(words, string(text))
	}
}

// readOptions says how the types of a policy are spelled.
func readOptions() yamlstrict.Options {
	scalars := map[reflect.Type]yamlstrict.Scalar{
		reflect.TypeFor[time.Duration]():    {Parse: parseDuration},
		reflect.TypeFor[policy.Ratio]():     {Parse: parseText(reflect.TypeFor[policy.Ratio](), "")},
		reflect.TypeFor[policy.PerSecond](): {Parse: parseText(reflect.TypeFor[policy.PerSecond](), "")},
		reflect.TypeFor[policy.Endpoint]():  {Parse: parseText(reflect.TypeFor[policy.Endpoint](), "")},
		reflect.TypeFor[policy.Price]():     {Parse: parseText(reflect.TypeFor[policy.Price](), "")},
		reflect.TypeFor[policy.Quota]():     {Parse: parseText(reflect.TypeFor[policy.Quota](), "")},
	}
	for t, list := range facts.Words {
		scalars[t] = yamlstrict.Scalar{Words: list, Parse: parseText(t, "")}
	}
	for t, list := range words {
		scalars[t] = yamlstrict.Scalar{Words: list, Parse: parseText(t, strings.Join(list, ", "))}
	}
	instead := func(path string) string {
		if serving(path) {
			return noFact
		}
		return withoutOff()[path]
	}
	other := map[reflect.Type]yamlstrict.Other{reflect.TypeFor[policy.Timeout](): measuredAttempt}
	return yamlstrict.Options{Lookup: os.LookupEnv, Scalars: scalars, Off: sectionOff, Moved: moved, Named: named, Instead: instead, Other: other}
}

// measuredAttempt reads attempt: p99.9, which says percentile: 99.9%. The attempt's own value
// stays what it was: the upper bound.
func measuredAttempt(key, text string) (name string, read yamlstrict.Scalar) {
	if key != "attempt" || !strings.HasPrefix(text, "p") {
		return "", yamlstrict.Scalar{}
	}
	return "percentile", yamlstrict.Scalar{Parse: func(text string) (any, string, string) {
		var r policy.Ratio
		if err := r.UnmarshalText([]byte(text[1:] + "%")); err != nil {
			return r, "is not a percentile", "write one such as p99.9"
		}
		return r, "", ""
	}}
}

// named has the words for a value of one key.
func named(path string) map[string]any {
	if key, ok := strings.CutSuffix(path, ".limit"); ok && (strings.HasSuffix("."+key, ".bulkhead") || strings.HasSuffix("."+key, ".admission")) {
		return map[string]any{"learned": policy.Learned}
	}
	return nil
}

// moved says where a key is now that had another place.
var moved = map[string]string{"breaker.partitions": "partitions.max", "breaker.partition_idle": "partitions.idle"}

// noFact is what to write in the place of a fact that is off.
const noFact = "leave the key out when nothing is known"

// withoutOff returns what to write, by path, where off is no value. Validate knows: it
// is asked about a policy in which everything is off.
var withoutOff = sync.OnceValue(func() map[string]string {
	var p policy.Policy
	instead := map[string]string{"version": fmt.Sprintf("write version: %d", formatVersion)}
	leaves(reflect.ValueOf(&p).Elem(), "", true, func(path string, v reflect.Value) {
		switch {
		case v.CanInt():
			v.SetInt(policy.Off)
		case v.CanFloat():
			v.SetFloat(policy.Off)
		case v.Kind() == reflect.Slice:
			instead[path] = "leave it out of the list"
		}
	})
	for _, path := range slices.Concat(keysOfFacts("facts.", facts.Facts{}), keysOfFacts("", facts.Program{})) {
		instead[path] = noFact
	}
	found, _ := p.Validate().(policy.Mistakes)
	for _, f := range found {
		if f.With == "" {
			instead[f.Path] = "leave the key out for the default"
		}
		if f.With == "" && strings.HasPrefix(f.Proposal, "write ") {
			instead[f.Path] += ", or " + f.Proposal
		}
	}
	return instead
})

// sectionOff says what the word off does to a section that has no field Off.
// offTarget names the key that it sets, for Explain.
var (
	sectionOff = map[reflect.Type]func(reflect.Value){
		reflect.TypeFor[policy.Retry]():           func(v reflect.Value) { v.FieldByName("Attempts").SetInt(1) },
		reflect.TypeFor[backoff.Backoff]():        func(v reflect.Value) { v.FieldByName("Base").SetInt(policy.Off) },
		reflect.TypeFor[policy.Partitions]():      func(v reflect.Value) { v.FieldByName("Max").SetInt(policy.Off) },
		reflect.TypeFor[policy.ContentionRetry](): func(v reflect.Value) { v.FieldByName("Attempts").SetInt(1) },
	}
	offTarget = map[string]string{
		"retry": "retry.attempts", "retry.contention": "retry.contention.attempts",
		"partitions":    "partitions.max",
		"retry.backoff": "retry.backoff.base", "retry.contention.backoff": "retry.contention.backoff.base",
	}
)

func parseDuration(text string) (any, string, string) {
	d, err := policy.ParseDuration(text)
	problem, proposal := explainText(err, "")
	return d, problem, proposal
}

// parseText reads a type that reads itself.
func parseText(t reflect.Type, among string) func(string) (any, string, string) {
	return func(text string) (any, string, string) {
		v := reflect.New(t)
		err := v.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
		problem, proposal := explainText(err, among)
		return v.Elem().Interface(), problem, proposal
	}
}

func explainText(err error, among string) (problem, proposal string) {
	var as *terms.TextError
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &as):
		return as.Problem, as.Proposal
	}
	return "is not known", "use one of " + among
}

// leaves calls do for each key of a policy, in the order of its fields. A section
// that is off is one key. all also visits what a section that is off holds.
func leaves(v reflect.Value, path string, all bool, do func(path string, v reflect.Value)) {
	off := v.FieldByName("Off")
	if off.IsValid() && off.Bool() && !all {
		do(path, off)
		return
	}
	for i, name := range namesOf(v.Type()) {
		if name == "Off" || !all && (meaningless(v, name) || fixedLimit(v, name)) {
			continue
		}
		at := yamlstrict.Snake(name)
		if path != "" {
			at = path + "." + at
		}
		if f := v.Field(i); f.Kind() == reflect.Struct {
			leaves(f, at, all, do)
		} else {
			do(at, f)
		}
	}
}

// namesOfTypes remembers what namesOf returned, which is only read.
var namesOfTypes sync.Map // by reflect.Type

// namesOf returns the names of a struct's fields, in their order.
func namesOf(t reflect.Type) []string {
	if known, ok := namesOfTypes.Load(t); ok {
		return known.([]string)
	}
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Name
	}
	namesOfTypes.Store(t, names)
	return names
}

// shapes names the shapes of a budget that a field is of, where it is not of all.
var shapes = map[string][]policy.BudgetShape{
	"Window":        {policy.BudgetEarned, policy.BudgetWindow},
	"Reserve":       {policy.BudgetEarned},
	"Start":         {policy.BudgetEarned},
	"Floor":         {policy.BudgetWindow},
	"Capacity":      {policy.BudgetTokens, policy.BudgetGRPC, policy.BudgetQuota},
	"Cost":          {policy.BudgetTokens, policy.BudgetQuota},
	"ThrottledCost": {policy.BudgetQuota},
	"TimeoutCost":   {policy.BudgetQuota},
	"MinInFlight":   {policy.BudgetShare},
}

// meaningless reports whether a field of a budget means nothing in its shape, or the least
// of an attempt's time where that is not measured.
func meaningless(v reflect.Value, name string) bool {
	switch s := v.Interface().(type) {
	case policy.Budget:
		of := shapes[name]
		return of != nil && !slices.Contains(of, s.Shape)
	case policy.Timeout:
		return name == "AttemptMin" && s.Percentile <= 0
	case policy.Endpoints:
		return len(s.List) == 0 || name == "Standing" && s.Mode != policy.EndpointsOrdered
	}
	return false
}

// fixedLimit reports whether a field of a bulkhead means nothing where its limit is a
// number.
func fixedLimit(v reflect.Value, name string) bool {
	b, ok := v.Interface().(policy.Bulkhead)
	return ok && (name == "Min" || name == "Max") && b.Limit != policy.Learned
}

// overlay lays what over says on top of p. A section that over says anything
// about is on.
func overlay(p, over policy.Policy) policy.Policy {
	overlayValue(reflect.ValueOf(&p).Elem(), reflect.ValueOf(over))
	return p
}

func overlayValue(dst, src reflect.Value) {
	if src.IsZero() {
		return
	}
	if src.Kind() != reflect.Struct {
		dst.Set(src)
		return
	}
	if off := dst.FieldByName("Off"); off.IsValid() {
		off.SetBool(false)
	}
	for i := range src.NumField() {
		overlayValue(dst.Field(i), src.Field(i))
	}
}
