package main

import (
	"fmt"
	"sort"
	"strings"
)

// Verdicts on a finding.
const (
	isTrue   = "true"     // the code does what the message says, and it can hurt
	arguable = "arguable" // it does, and may be intended
	isFalse  = "false"    // it does not, or it cannot hurt there
)

// verdict is what a reviewer of the code said.
type verdict struct{ word, reason string }

func (v verdict) String() string {
	if v.word == "" {
		return "not judged"
	}
	return v.word + ": " + v.reason
}

// readVerdicts reads lines of an id, a place, a word and a reason.
func readVerdicts(name string) (map[string]verdict, error) {
	all := map[string]verdict{}
	err := eachLine(name, func(words []string, line string) error {
		if len(words) < 4 || words[2] != isTrue && words[2] != arguable && words[2] != isFalse {
			return fmt.Errorf("%s: want an id, a place, true, arguable or false, and a reason", line)
		}
		all[words[0]+" "+words[1]] = verdict{words[2], strings.Join(words[3:], " ")}
		return nil
	})
	return all, err
}

// tally counts verdicts.
type tally map[string]int

func (t tally) row() string {
	all := 0
	for _, n := range t {
		all += n
	}
	return fmt.Sprintf("%d | %d | %d | %d |", all, t[isTrue], t[arguable], t[isFalse])
}

func page(all []result, verdicts map[string]verdict) string {
	var b strings.Builder
	total, byRule := tally{}, map[string]tally{}
	lines := 0
	for _, r := range all {
		lines += r.lines
		for _, f := range r.findings {
			word := verdicts[f.key()].word
			total[word]++
			if byRule[f.id] == nil {
				byRule[f.id] = tally{}
			}
			byRule[f.id][word]++
		}
	}
	found := 0
	for _, n := range total {
		found += n
	}
	fmt.Fprintf(&b, preface, len(all), lines, found, total[isTrue], total[arguable], total[isFalse], share(total[isFalse], found))
	if n := total[""]; n > 0 {
		fmt.Fprintf(&b, "\n**%d findings are not judged yet.**\n", n)
	}
	b.WriteString("\n## By module\n\n| module | version | lines | findings | true | arguable | false |\n|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		t := tally{}
		for _, f := range r.findings {
			t[verdicts[f.key()].word]++
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s\n", r.path, r.version, r.lines, t.row())
	}
	b.WriteString("\n## By rule\n\n| rule | findings | true | arguable | false |\n|---|---|---|---|---|\n")
	for _, id := range sorted(byRule) {
		fmt.Fprintf(&b, "| [%s](lint/%s.md) | %s\n", id, id, byRule[id].row())
	}
	b.WriteString("\n## Every finding\n\n| rule | where | verdict | why |\n|---|---|---|---|\n")
	for _, r := range all {
		for _, f := range r.findings {
			v := verdicts[f.key()]
			fmt.Fprintf(&b, "| %s | %s %s:%d | %s | %s |\n", f.id, f.module, f.file, f.line, v.word, strings.ReplaceAll(v.reason, "|", "\\|"))
		}
	}
	return b.String()
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func sorted(m map[string]tally) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

const preface = `# What gabionvet finds in public code

All rules were run over %d public modules, %d lines without _test.go files, at the versions below, and each finding was
judged by reading the code around it. This page is written by ` + "`go run ./internal/survey`" + ` in the folder of the module
gabionvet, from the verdicts in its file judged.txt.

Each place counts once. The verdicts:

* **true**: the code does what the message says, and it can hurt its users.
* **arguable**: it does what the message says, and there is a reason to leave it: it is documented, it is for a tool
  that a person watches, or the caller can set it otherwise.
* **false**: it does not do what the message says, or that cannot hurt there. These are the false positives.

Files for tests and generated code are read but not judged, as everywhere: see [gabionvet](vet.md). Rules without a row below found nothing
in these modules; the tests alone show what they find.

**%d findings: %d true, %d arguable, %d false (%.1f %%).**
`
