package lintcmd

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// Bounds of the fixes that are worked out for a report, and of the text that is read for
// them: each means reading its whole file again.
const (
	maxSARIFFixes = 50
	maxSARIFRead  = 1 << 20
)

// object is a JSON object of SARIF 2.1.0, in the words of its specification.
type object map[string]any

// sarif is the report as SARIF 2.1.0, which code hosts and editors read.
func sarif(out outcome) object {
	all := slices.Clone(out.Findings)
	for _, i := range out.Ignored {
		all = append(all, i.Finding)
	}
	rules, index := sarifRules(all)
	s := sarifResults{out: out, index: index}
	results := []object{}
	for _, f := range out.Findings {
		results = append(results, s.result(f))
	}
	for _, i := range out.Ignored {
		result := s.result(i.Finding)
		result["suppressions"] = []object{{
			"kind": "inSource", "justification": i.Why, "location": object{"physicalLocation": physical(i.File, object{"startLine": i.Line})},
		}}
		results = append(results, result)
	}
	notes := []object{}
	for _, u := range out.Unknown {
		notes = append(notes, object{
			"level": "note", "message": object{"text": strings.TrimSuffix(u.File+": "+u.Dependency, ": ") + ": not evaluated: " + u.Missing + ": " + u.Why},
			"associatedRule": object{"id": u.Rule.ID},
		})
	}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool":        object{"driver": object{"name": "gabion lint", "informationUri": "https://github.com/gabion-go/gabion", "rules": rules}},
			"columnKind":  "unicodeCodePoints",
			"results":     results,
			"invocations": []object{{"executionSuccessful": true, "toolExecutionNotifications": notes}},
		}},
	}
}

// sarifRules are all rules, and the place of each in their list.
func sarifRules(found []lint.Finding) (rules []object, index map[string]int) {
	all := lint.Rules()
	index = map[string]int{}
	for _, f := range found {
		if !slices.ContainsFunc(all, func(rule lint.Rule) bool { return rule.ID == f.Rule.ID }) {
			all = append(all, f.Rule)
		}
	}
	for i, rule := range all {
		index[rule.ID] = i
		rules = append(rules, object{
			"id": rule.ID, "name": rule.Name, "shortDescription": object{"text": rule.Title}, "helpUri": rule.Page(),
			"defaultConfiguration": object{"level": rule.Severity},
		})
	}
	return rules, index
}

type sarifResults struct {
	out   outcome
	index map[string]int
	fixes int
	read  int // bytes of text
}

func (s *sarifResults) result(f lint.Finding) object {
	text := f.Reason
	if f.Proposal != "" {
		text += "\n" + f.Proposal
	}
	region := object{"startLine": f.Line, "startColumn": f.Col}
	if f.Snippet != "" {
		region["snippet"] = object{"text": f.Snippet}
	}
	location := object{"physicalLocation": physical(f.File, region)}
	if f.Dependency != "" {
		location["logicalLocations"] = []object{{"name": f.Dependency, "fullyQualifiedName": strings.TrimSuffix(f.Dependency+"."+f.Path, ".")}}
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{f.Rule.ID, uri(f.File), f.Dependency, f.Path}, "\n")))
	result := object{
		"ruleId": f.Rule.ID, "ruleIndex": s.index[f.Rule.ID], "level": f.Severity, "message": object{"text": text}, "locations": []object{location},
		"partialFingerprints": object{"gabionLint/v1": hex.EncodeToString(sum[:16])},
	}
	if fix := s.fix(f); fix != nil {
		result["fixes"] = []object{fix}
	}
	return result
}

// fix is what --fix would change, as lines that take the place of others.
func (s *sarifResults) fix(f lint.Finding) object {
	at := slices.IndexFunc(s.out.inputs, func(in input) bool { return in.name == f.File })
	if len(f.Fix) == 0 || at < 0 || s.fixes == maxSARIFFixes {
		return nil
	}
	before := s.out.inputs[at].text
	if s.fixes, s.read = s.fixes+1, s.read+len(before); s.read > maxSARIFRead {
		return nil
	}
	after, err := policyfile.Edit(f.File, before, f.Fix)
	if err != nil {
		return nil
	}
	was, is := strings.SplitAfter(string(before), "\n"), strings.SplitAfter(string(after), "\n")
	from := 0
	for from < min(len(was), len(is))-1 && was[from] == is[from] {
		from++
	}
	end := 0
	for end < min(len(was), len(is))-from-1 && was[len(was)-1-end] == is[len(is)-1-end] {
		end++
	}
	last := was[len(was)-1-end]
	var texts []string
	for _, c := range f.Fix {
		texts = append(texts, c.Dependency+": "+c.Path+": "+c.Value)
	}
	deleted := object{"startLine": from + 1, "startColumn": 1, "endLine": len(was) - end, "endColumn": len([]rune(strings.TrimRight(last, "\r\n"))) + 1}
	inserted := strings.TrimRight(strings.Join(is[from:len(is)-end], ""), "\r\n")
	return object{
		"description": object{"text": strings.Join(texts, ", ")},
		"artifactChanges": []object{{
			"artifactLocation": object{"uri": uri(f.File)},
			"replacements":     []object{{"deletedRegion": deleted, "insertedContent": object{"text": inserted}}},
		}},
	}
}

func physical(file string, region object) object {
	return object{"artifactLocation": object{"uri": uri(file)}, "region": region}
}

// uri is a path as SARIF writes it: with slashes, and below the folder of the repository if
// it is no path from the root.
func uri(path string) string {
	path = filepath.ToSlash(filepath.Clean(path))
	if filepath.IsAbs(path) {
		return (&url.URL{Scheme: "file", Path: path}).String()
	}
	return (&url.URL{Path: path}).String()
}
