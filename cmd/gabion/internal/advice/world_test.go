package advice

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
)

// world is a scenario of the library, and what the people who run its services know of them.
type world struct {
	name   string
	places []place // one for each policy
	text   string
}

// place is a dependency in a scenario.
type place struct {
	name           string // of the policy
	safe           bool
	timeout        policy.Timeout
	rate, capacity float64 // calls a second of one process in health; of all that can be answered, 0 if no request ever waits
	processes, fan int     // fan is how many requests of one call there are at once
	p50, p99, p999 time.Duration
}

// lasts is how long each scenario of the library is played: its trouble, and a minute and more
// after it. In the others a broker delivers, and no caller's policy is played, it is one outage for
// a day, or it is about what answers say, caches, connections, pauses, quotas or stores of fleets, of which rules
// know nothing.
var lasts = map[string]string{
	"admission": "3m30s", "black-hole": "4m30s", "brown-out": "4m30s", "cron-burst": "3m30s", "error-storm": "5m", "expired-work": "3m", "flap": "5m",
	"fleet-rate-limit": "5m30s", "healthy": "2m", "hedge-that-hurts": "4m30s", "layered-retries": "4m30s", "lost-answers": "5m", "measured-timeout": "8m",
	"metastable-collapse": "2m", "one-bad-replica": "5m30s", "overload": "3m30s", "restart-storm": "4m30s", "rush-hour": "66m", "short-blip": "3m30s",
	"short-lived-clients": "4m", "slow-dependency": "4m30s", "tail-hedging": "1m",
	"bad-deploy": "", "cold-cache": "", "gc-pauses": "", "paid-api": "", "fleet-shares": "", "fleet-store-outage": "", "fleet-rolling-deploy": "", "fleet-poisoned-pod": "", "consumer-outage": "", "consumer-restart-storm": "", "message-outage": "", "outage-of-a-day": "", "poison-partition": "", "pool-exhaustion": "", "redelivery-backlog": "", "redelivery-fork-bomb": "",
}

var durationLine = regexp.MustCompile(`(?m)^duration: .*$`)

// library are the scenarios of the library in which callers wait for an answer.
func library(t *testing.T) (all []world) {
	t.Helper()
	for _, name := range lab.Names() {
		d, known := lasts[name]
		if !known {
			t.Errorf("%s: nothing says how long it is played", name)
		}
		if d == "" {
			continue
		}
		s, err := lab.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, worldOf(t, name, durationLine.ReplaceAllLiteralString(s.Text(), "duration: "+d)))
	}
	return all
}

// small are worlds with the trouble of the library and few clients: a run takes milliseconds.
func small(t *testing.T) (all []world) {
	t.Helper()
	for _, of := range [][2]string{
		{"brown-out", "services:\n  db: {workers: 1, queue: 20, time: lognormal 20ms/100ms, drop_expired: true}\nfaults:\n  - {kind: brown_out, service: db, at: 10s, for: 12s, factor: 0.4}\n"},
		{"error-storm", "services:\n  db: {workers: 2, queue: 12, time: lognormal 20ms/100ms}\nfaults:\n  - {kind: errors, service: db, at: 10s, for: 8s, share: 80%, status: 503, costs_work: true}\n"},
		{"black-hole", "services:\n  db: {replicas: 3, workers: 1, queue: 16, time: lognormal 20ms/100ms}\nfaults:\n  - {kind: black_hole, service: db, at: 10s, for: 10s, replicas: 1}\n"},
		{"slow", "services:\n  db: {workers: 4, queue: 16, time: lognormal 30ms/150ms}\nfaults:\n  - {kind: slow, service: db, at: 10s, for: 10s, factor: 10, ramp: 2s}\n"},
		{"short-blip", "services:\n  db: {workers: 4, queue: 16, time: lognormal 20ms/100ms}\nfaults:\n  - {kind: down, service: db, at: 10s, for: 2s}\n"},
		{"rate-limit", "services:\n  db: {workers: 4, queue: 16, time: lognormal 20ms/100ms}\nfaults:\n  - {kind: rate_limit, service: db, at: 10s, for: 10s, limit: {rate: 15/s, burst: 5, retry_after: 2s}}\n"},
	} {
		all = append(all, worldOf(t, of[0], "version: 1\ntitle: "+of[0]+"\nduration: 50s\nwarmup: 3s\n"+
			"clients:\n  shop:\n    count: 10\n    rate: 30/s\n    deadline: 5s\n    calls: [{to: db, network: exp 2ms, propagate: true}]\n"+
			"policies:\n  db: {safe: true, timeout: {call: 5s, attempt: 1s, last: off}}\n"+of[1]))
	}
	return all
}

func worldOf(t *testing.T, name, text string) world {
	t.Helper()
	w := world{name: name, text: text}
	file, graph, found := lab.Read("", name, []byte(text))
	if len(found) > 0 {
		t.Fatal(found)
	}
	for _, e := range graph.Edges {
		if slices.ContainsFunc(w.places, func(p place) bool { return p.name == e.Dependency }) {
			continue
		}
		own := file.Policies[e.Dependency]
		p := place{name: e.Dependency, safe: own.Safe, timeout: own.Timeout, rate: float64(e.Facts.Rate), capacity: float64(e.Facts.Capacity), processes: e.Facts.Processes, fan: 1}
		if found := fans.FindStringSubmatch(text); found != nil {
			p.fan, _ = strconv.Atoi(found[1])
		}
		p.p50, p.p99, p.p999 = took(t, text, e.To)
		w.places = append(w.places, p)
	}
	return w
}

var (
	fans      = regexp.MustCompile(`fan: (\d+)`)
	lognormal = regexp.MustCompile(`^lognormal (\w+)/(\w+)`)
	exp       = regexp.MustCompile(`^exp (\w+)`)
	constant  = regexp.MustCompile(`^(\w+)`)
)

// took is how long a service takes in health: the median, 99 and 99.9 % of its answers.
func took(t *testing.T, text, service string) (p50, p99, p999 time.Duration) {
	t.Helper()
	found := regexp.MustCompile(`(?m)^  ` + service + `: \{.*?time: "?([^,}"]+)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("%s: no time", service)
	}
	parse := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	says := found[1]
	switch {
	case strings.HasPrefix(says, "98% uniform"): // and 2 % lognormal 60ms/1500ms
		return 6 * time.Millisecond, 60 * time.Millisecond, 584 * time.Millisecond
	case lognormal.MatchString(says):
		m := lognormal.FindStringSubmatch(says)
		p50, p99 = parse(m[1]), parse(m[2])
		sigma := math.Log(float64(p99)/float64(p50)) / 2.326
		return p50, p99, time.Duration(float64(p50) * math.Exp(3.09*sigma)).Round(time.Millisecond)
	case exp.MatchString(says):
		mean := float64(parse(exp.FindStringSubmatch(says)[1]))
		part := func(x float64) time.Duration { return time.Duration(x * mean).Round(time.Millisecond) }
		return part(0.693), part(4.605), part(6.908)
	}
	d := parse(constant.FindStringSubmatch(says)[1])
	return d, d, d
}

// file is the file of a user of the scenario's services, with these keys for each of them; empty if
// the facts do not allow it. Where the keys say nothing of timeouts, the scenario's count.
func (w world) file(keys func(place) string) string {
	text := "version: 1\nfacts: {metrics: true}\ndependencies:\n"
	for _, p := range w.places {
		own := keys(p)
		if own == "" {
			return ""
		}
		if !strings.Contains(own, "timeout: ") {
			own += ", timeout: {" + timeoutText(p.timeout) + "}"
		}
		if !strings.Contains(own, "safe: ") {
			own += fmt.Sprintf(", safe: %v", p.safe)
		}
		text += fmt.Sprintf("  %s: {%s}\n", p.name, own)
	}
	return text
}

var (
	called = regexp.MustCompile(`\{to: [\w-]+`)
	worked = regexp.MustCompile(`(?m)^(  [\w-]+: \{.*?)time: `)
)

// keyed is the scenario with calls that have keys, at which the services look.
func (w world) keyed() world {
	if !strings.Contains(w.text, "keyed: true") {
		w.text = called.ReplaceAllString(w.text, "$0, keyed: true")
		w.text = worked.ReplaceAllString(w.text, "${1}honours_keys: true, time: ")
	}
	return w
}

func timeoutText(t policy.Timeout) string {
	all := []string{}
	add := func(key string, d time.Duration) {
		if d != 0 {
			all = append(all, key+": "+policy.FormatDuration(d))
		}
	}
	add("call", t.Call)
	add("attempt", t.Attempt)
	add("last", t.Last)
	if t.Percentile > 0 {
		all = append(all, "percentile: "+t.Percentile.String())
	}
	return strings.Join(all, ", ")
}

// played is what a file came to in a scenario.
type played struct {
	answered float64 // in time, of a hundred calls
	load     float64 // requests in the trouble, for each that is needed
	twice    float64 // work that was done twice
}

func (a played) add(b played) played {
	return played{a.answered + b.answered, a.load + b.load, a.twice + b.twice}
}

// known is what was played before, by scenario and policies: many proposals lead to the defaults.
var known sync.Map

// play runs the scenario by the file's policies.
func (w world) play(t *testing.T, text string, runs int) played {
	t.Helper()
	f, err := config.Parse("gabion.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v\n%s", w.name, err, text)
	}
	key := w.text
	for _, name := range f.Names() {
		key += fmt.Sprintf("%s %+v\n", name, f.Policies[name].Resolved())
	}
	if was, ok := known.Load(key); ok {
		return was.(played)
	}
	out := w.playOnce(t, f, text, runs)
	known.Store(key, out)
	return out
}

func (w world) playOnce(t *testing.T, f *config.File, text string, runs int) played {
	t.Helper()
	s, err := lab.Parse(w.name, []byte(w.text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), lab.Options{Config: f, Alone: true, Seed: 4711, Replications: runs, Workers: 1})
	if err != nil {
		t.Fatalf("%s: %v\n%s", w.name, err, text)
	}
	metric := func(key string, phases ...string) (x float64) {
		for _, phase := range phases {
			m, _, err := r.Metric(0, key, "", phase)
			if err == nil {
				return m.Value
			}
			x = math.NaN()
		}
		t.Errorf("%s has no %s", w.name, key)
		return x
	}
	return played{100 * metric("goodput", ""), metric("amplification", "during", ""), metric("duplicates", "")}
}
