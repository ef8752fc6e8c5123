package flakycmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// simple are the flags that make a plan. They are texts: the plan's reader reads them.
type simple struct {
	errors, status, after, reset, lost, cut, hang, body string
	latency, workers, queue, rate                       string
	at, lasts, ramp                                     string
	late, honours                                       bool
}

// planFlags are their names.
var planFlags []string

func (s *simple) flags(flags *pflag.FlagSet) {
	planFlags = planFlags[:0:0]
	text := func(to *string, name string) { flags.StringVar(to, name, "", ""); planFlags = append(planFlags, name) }
	text(&s.errors, "errors")
	text(&s.status, "status")
	text(&s.after, "retry-after")
	text(&s.reset, "reset")
	text(&s.lost, "lost")
	text(&s.cut, "cut")
	text(&s.hang, "hang")
	text(&s.body, "slow-body")
	text(&s.latency, "latency")
	text(&s.workers, "workers")
	text(&s.queue, "queue")
	text(&s.rate, "rate")
	text(&s.at, "at")
	text(&s.lasts, "for")
	text(&s.ramp, "ramp")
	flags.BoolVar(&s.late, "after-work", false, "")
	flags.BoolVar(&s.honours, "honours-keys", false, "")
	planFlags = append(planFlags, "after-work", "honours-keys")
}

// given returns a flag that makes a plan and was given, or nothing.
func (s *simple) given(flags *pflag.FlagSet) (name string) {
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(planFlags, f.Name) {
			name = f.Name
		}
	})
	return name
}

// pair is a key of the plan and its value.
type pair struct{ key, value string }

// text is the plan. A fault that is not said to end lasts as long as one may.
func (s *simple) text() string {
	var b strings.Builder
	b.WriteString("version: 1\ntitle: As the flags say\n")
	service := keys([]pair{{"workers", s.workers}, {"queue", s.queue}, {"time", s.latency}, {"honours_keys", word(s.honours)}})
	if s.rate != "" {
		service = append(service, fmt.Sprintf("limit: {rate: %s}", quoted(s.rate)))
	}
	if len(service) > 0 {
		fmt.Fprintf(&b, "service: {%s}\n", strings.Join(service, ", "))
	}
	errors := s.errors
	if errors == "" && (s.status != "" || s.after != "" || s.late) {
		errors = "100%"
	}
	var faults []string
	fault := func(kind string, share string, more ...pair) {
		if share == "" {
			return
		}
		all := append([]pair{{"kind", kind}, {"at", cmp.Or(s.at, "0s")}, {"for", cmp.Or(s.lasts, "744h")}, {"ramp", s.ramp}}, more...)
		if kind != "slow_body" {
			all = append(all, pair{"share", share})
		}
		faults = append(faults, "  - {"+strings.Join(keys(all), ", ")+"}\n")
	}
	fault("black_hole", s.hang)
	fault("reset", s.reset)
	fault("errors", errors, pair{"status", s.status}, pair{"retry_after", s.after}, pair{"after_work", word(s.late)})
	fault("lost_answers", s.lost)
	fault("cut_body", s.cut)
	fault("slow_body", s.body, pair{"add", s.body})
	if len(faults) > 0 {
		b.WriteString("faults:\n" + strings.Join(faults, ""))
	}
	return b.String()
}

// keys writes those that have a value.
func keys(all []pair) (texts []string) {
	for _, p := range all {
		if p.value != "" {
			texts = append(texts, p.key+": "+quoted(p.value))
		}
	}
	return texts
}

// quoted keeps a value in its place, whatever is in it.
func quoted(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._%/") == "" {
		return s
	}
	return "'" + strings.NewReplacer("'", "''", "\n", " ", "\r", " ").Replace(s) + "'"
}

func word(is bool) string {
	if is {
		return "true"
	}
	return ""
}
