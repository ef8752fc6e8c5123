package lint

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testgolden"
)

// pitfalls are those of SPEC K, in its order, and which rules find them.
var pitfalls = []struct{ text, rules string }{
	{"retry of unsafe work without a key", "G001 G002 G052"},
	{"back-off without jitter", "G003 G004"},
	{"retrying 4xx", "G005"},
	{"unbounded retry", "G006 G007"},
	{"no timeout", "G007 G009"},
	{"attempt timeout ≥ call deadline", "G008"},
	{"attempts that cannot all fit in the deadline", "G010"},
	{"no breaker", "G013"},
	{"no slow-call detection", "G014"},
	{"breaker opening on 4xx or on the caller's cancel", "G005 G018"},
	{"retry at several layers", "G011 G043 G044 G070 G075"},
	{"fresh timeout per hop", "G071 G072"},
	{"fallback as habit", "G047"},
	{"breaker state unobserved", "G048"},
	{"budget larger than the dependency's spare capacity", "G023 G024"},
	{"fresh key per attempt", "G038"},
	{"retention shorter than the retry horizon", "G037 G050"},
	{"bulkhead larger than the pool it guards", "G026"},
	{"minimum calls larger than the window can hold", "G016"},
	{"no retry budget", "G020 G021"},
	{"jitter of ±25 % or less", "G003"},
	{"attempts > 6 outside queues", "G006"},
	{"slow limit ≥ attempt timeout", "G000 G015"},
	{"queue outside 2–5× of the bulkhead", "G028"},
	{"open time outside 15–60 s", "G019"},
	{"HTTP timeout ≤ 100 ms or ≥ 5 min", "G030"},
	{"the same breaker in mesh and program", "G074"},
	{"breaker around a local resource", "G025"},
}

const marks = "<!-- written by: go test ./lint -run TestTheTableOfRules -args -update -->\n"

// docs/lint.md has all rules, and which pitfall each is of.
func TestTheTableOfRules(t *testing.T) {
	const path = "../../docs/lint.md"
	var b strings.Builder
	b.WriteString(marks + "| rule | severity | what it finds | facts that it needs |\n|---|---|---|---|\n")
	known := map[string]bool{}
	for _, r := range Rules() {
		known[r.ID] = true
		needs := "`" + strings.Join(r.Needs, "`, `") + "`"
		if len(r.Needs) == 0 {
			needs = ""
		}
		fmt.Fprintf(&b, "| [%s](lint/%s.md) %s | %s | %s | %s |\n", r.ID, r.ID, r.Name, r.Severity, r.Title, strings.ReplaceAll(needs, "facts.", ""))
	}
	b.WriteString("\n## Pitfalls, and the rules that find them\n\n| pitfall | rules |\n|---|---|\n")
	for _, p := range pitfalls {
		var links []string
		for _, id := range strings.Fields(p.rules) {
			if !known[id] {
				t.Errorf("%s: there is no rule %s", p.text, id)
			}
			links = append(links, fmt.Sprintf("[%s](lint/%s.md)", id, id))
		}
		fmt.Fprintf(&b, "| %s | %s |\n", p.text, strings.Join(links, ", "))
	}
	b.WriteString("<!-- end -->\n")
	page := read(t, path)
	tables := regexp.MustCompile(`(?s)<!-- written by.*<!-- end -->\n`)
	want := tables.ReplaceAllLiteralString(page, b.String())
	if !strings.Contains(page, marks) {
		t.Fatal("docs/lint.md has no place for the tables")
	}
	testgolden.File(t, path, want)
}
