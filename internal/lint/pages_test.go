package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
)

var (
	block  = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	header = regexp.MustCompile(`(?m)^# file: (\S+)\n`)
)

// files reads a block of a page. A block of several files names each: # file: shop.yaml.
func files(t *testing.T, text string) (files []*config.File, broken []config.Findings) {
	t.Helper()
	names, texts := []string{"gabion.yaml"}, []string{text}
	if found := header.FindAllStringSubmatch(text, -1); len(found) > 0 {
		names, texts = nil, header.Split(text, -1)[1:]
		for _, f := range found {
			names = append(names, f[1])
		}
	}
	for i, name := range names {
		f, mistakes := config.Read(name, []byte(texts[i]))
		if len(mistakes) > 0 {
			broken = append(broken, mistakes)
		}
		files = append(files, f)
	}
	return files, broken
}

// Each rule has a page. The first file on it is bad: the rule finds something there. The
// second one is good: no rule finds anything worse than a note, and this one nothing.
func TestPagesShowWhatIsBadAndGood(t *testing.T) {
	for _, rule := range Rules() {
		t.Run(rule.ID, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join("..", "..", "docs", "lint", rule.ID+".md"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(page), "# "+rule.ID+" "+rule.Name+"\n") {
				t.Errorf("the page does not begin with # %s %s", rule.ID, rule.Name)
			}
			for _, title := range []string{"\n## Why\n", "\n## Bad\n", "\n## Good\n", "\n## Who got burnt\n"} {
				if !strings.Contains(string(page), title) {
					t.Errorf("no section %q", strings.TrimSpace(title))
				}
			}
			blocks := block.FindAllStringSubmatch(string(page), -1)
			if len(blocks) < 2 {
				t.Fatalf("%d blocks of yaml", len(blocks))
			}
			of := func(text string) Report {
				fs, broken := files(t, text)
				return Run(fs, Options{Broken: broken})
			}
			bad := of(blocks[0][1])
			hit := slices.ContainsFunc(bad.Findings, func(f Finding) bool { return f.Rule.ID == rule.ID })
			if !hit {
				t.Errorf("the bad file is not found: %v", bad)
			}
			for _, f := range bad.Findings {
				if said := regexp.MustCompile(`\s+`).ReplaceAllString(f.Reason, " "); f.Rule.ID == rule.ID && !strings.Contains(strings.Join(strings.Fields(string(page)), " "), said) {
					t.Errorf("the page does not show what is said: %s", said)
				}
			}
			for _, f := range of(blocks[1][1]).Findings {
				if f.Rule.ID == rule.ID || f.Severity > Note {
					t.Errorf("the good file: %v", f)
				}
			}
		})
	}
	known := Rules()
	pages, _ := filepath.Glob("../../docs/lint/G0*.md")
	for _, page := range pages {
		id := strings.TrimSuffix(filepath.Base(page), ".md")
		if !slices.ContainsFunc(known, func(r Rule) bool { return r.ID == id }) {
			t.Errorf("%s is of no rule", page)
		}
	}
}

func TestRulesAreTold(t *testing.T) {
	ids, names := map[string]bool{}, map[string]bool{}
	for _, r := range Rules() {
		if ids[r.ID] || names[r.Name] || !regexp.MustCompile(`^G0\d\d$`).MatchString(r.ID) || r.Title == "" {
			t.Errorf("%+v", r)
		}
		ids[r.ID], names[r.Name] = true, true
	}
	for _, r := range Rules() {
		for _, path := range r.Needs {
			if !strings.HasPrefix(path, "facts.") && !slices.Contains(policyfile.Keys(), path) {
				t.Errorf("%s needs %s, which is neither a fact nor a key", r.ID, path)
			}
		}
	}
}

// What could not be read leaves a rule unknown, and not silent.
func TestWhatIsNotKnownIsTold(t *testing.T) {
	f, broken := config.Read("gabion.yaml", []byte("version: 1\ndependencies: {a: {retry: {attempts: x}}}"))
	r := Run([]*config.File{f}, Options{Broken: []config.Findings{broken}, Rules: []string{"G010"}})
	if len(r.Unknown) != 1 || r.Unknown[0].Missing != "retry.attempts" || r.Unknown[0].Dependency != "a" {
		t.Errorf("%+v", r.Unknown)
	}
	if len(r.Findings) != 1 || r.Findings[0].Rule.ID != "G000" {
		t.Errorf("%v", r.Findings)
	}
}
