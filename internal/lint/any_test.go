package lint

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// noNumber finds what no message may say.
var noNumber = regexp.MustCompile(`NaN|Inf|%!|-\d+(\.\d+)?(ms|s|m|h)\b|e\+|292y|\b2562047h`)

// judged runs all rules on a text, and looks at what they say.
func judged(t *testing.T, text string) {
	f, broken := config.Read("gabion.yaml", []byte(text), config.Lookup(func(string) (string, bool) { return "", false }))
	for _, g := range Run([]*config.File{f}, Options{}).Findings {
		if g.Reason == "" || g.Line < 1 || len(broken) == 0 && noNumber.MatchString(g.Reason+g.Proposal) {
			t.Fatalf("%s\n%v", text, g)
		}
	}
}

// Values of every kind of key: usual, at the bounds, and far outside of them.
var values = map[string][]string{
	"time":  {"1us", "99ms", "100ms", "1s", "4s", "15s", "5m", "8760h", "off", "0s", "9999999h"},
	"count": {"1", "2", "3", "7", "64", "65", "1000", "1000000", "1000000000", "9223372036854775807", "off", "learned", "-3"},
	"share": {"0.1%", "1%", "50%", "95%", "99.9%", "100%", "400%", "off"},
	"rate":  {"1/h", "0.5/s", "10/s", "1000000/s", "99999999999999999999/s", "off"},
	"bool":  {"true", "false", "off"},
	"words": {"full", "constant", "exponential", "earned", "window", "tokens", "grpc", "share", "quota", "call", "required", "made"},
}

// draw writes a dependency of some random keys.
func draw(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("{")
	paths := append(policyfile.Keys(),
		"facts.rate", "facts.processes", "facts.capacity", "facts.p50", "facts.p99", "facts.p999", "facts.blip", "facts.pool", "facts.idle_per_host", "facts.local",
		"facts.writes", "facts.queue", "facts.fallback", "facts.inner", "facts.mesh.attempts", "facts.mesh.timeout", "facts.mesh.breaker", "facts.key_retention")
	type section map[string]any
	root := section{}
	for range 1 + r.IntN(12) {
		path := strings.Split(paths[r.IntN(len(paths))], ".")
		at := root
		for _, key := range path[:len(path)-1] {
			next, ok := at[key].(section)
			if !ok {
				next = section{}
				at[key] = next
			}
			at = next
		}
		if _, ok := at[path[len(path)-1]].(section); !ok {
			at[path[len(path)-1]] = valueFor(r, path[len(path)-1])
		}
	}
	var write func(s section)
	write = func(s section) {
		first := true
		for key, v := range s {
			if !first {
				b.WriteString(", ")
			}
			first = false
			b.WriteString(key + ": ")
			if sub, ok := v.(section); ok {
				b.WriteString("{")
				write(sub)
				b.WriteString("}")
				continue
			}
			b.WriteString(v.(string))
		}
	}
	write(root)
	b.WriteString("}")
	return b.String()
}

// valueFor draws a value that the key can mostly have.
func valueFor(r *rand.Rand, key string) string {
	kind := "time"
	switch {
	case regexp.MustCompile(`attempts|max$|min$|calls|failures|consecutive$|probes|limit$|queue$|burst|capacity$|cost|inner|pool|processes|idle_per|hold|after$|repeats|min_in`).MatchString(key):
		kind = "count"
	case regexp.MustCompile(`ratio|percentile|_rate$|fit`).MatchString(key):
		kind = "share"
	case regexp.MustCompile(`^rate|floor`).MatchString(key):
		kind = "rate"
	case regexp.MustCompile(`safe|local|writes|fallback|observe|throttled|fair|in_flight|breaker`).MatchString(key):
		kind = "bool"
	case regexp.MustCompile(`kind|shape|per$|key$`).MatchString(key):
		kind = "words"
	}
	if r.IntN(12) == 0 {
		kind = []string{"time", "count", "share", "rate", "bool", "words"}[r.IntN(6)]
	}
	of := values[kind]
	return of[r.IntN(len(of))]
}

// Whatever a file says, rules say numbers, and end.
func TestAnyPolicyIsLookedAt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		judged(t, "version: 1\ndependencies:\n  a: "+draw(r)+"\n")
	}
}

func FuzzRun(f *testing.F) {
	for _, text := range badFiles(f) {
		f.Add(text)
	}
	f.Add("version: 1\ndependencies: {a: {retry: {attempts: 1000000000}, timeout: {call: off}}}")
	f.Add("version: 1\ndependencies: {a: {facts: {rate: 1/s, processes: x}")
	f.Fuzz(func(t *testing.T, text string) { judged(t, text) })
}
