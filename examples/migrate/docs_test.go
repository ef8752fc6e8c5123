package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/examples/migrate/failsafego"
	"github.com/gabion-go/gabion/examples/migrate/gobreaker"
	"github.com/gabion-go/gabion/examples/migrate/guide"
	"github.com/gabion-go/gabion/examples/migrate/hystrix"
	"github.com/gabion-go/gabion/examples/migrate/retryablehttp"
	"github.com/gabion-go/gabion/policy"
)

var update = flag.Bool("update", false, "write the tables of the guides")

const docs = "../../docs"

func (m migration) guide() string { return filepath.Join(docs, "migrate", m.name+".md") }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compareTable compares a guide's table with what was measured, or writes it.
func (m migration) compareTable(t *testing.T, rows []row) {
	t.Helper()
	var table strings.Builder
	if m.before == nil {
		table.WriteString("| | gabion |\n|---|---|\n")
	} else {
		fmt.Fprintf(&table, "| | %s | gabion |\n|---|---|---|\n", title(m))
	}
	for _, r := range rows {
		if m.before == nil {
			fmt.Fprintf(&table, "| %s | %s |\n", r.name, r.after)
			continue
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", r.name, r.before, r.after)
	}
	guide.Keep(t, m.guide(), "measured", table.String(), *update, alike)
}

// compareAll does the same for the page that compares all libraries. Gabion's column is
// that of the programs which make three attempts.
func compareAll(t *testing.T, all [][]row) {
	t.Helper()
	var table strings.Builder
	head, line := "| |", "|---|"
	for _, m := range migrations {
		if m.before != nil {
			head, line = head+" "+title(m)+" |", line+"---|"
		}
	}
	fmt.Fprintf(&table, "%s gabion |\n%s---|\n", head, line)
	for i, r := range all[0] {
		fmt.Fprintf(&table, "| %s |", r.name)
		for j, m := range migrations {
			if m.before != nil {
				fmt.Fprintf(&table, " %s |", all[j][i].before)
			}
		}
		fmt.Fprintf(&table, " %s |\n", r.after)
	}
	guide.Keep(t, docs+"/comparison.md", "measured", table.String(), *update, alike)
}

func title(m migration) string { return strings.Replace(m.name, "gobreaker-", "gobreaker and ", 1) }

var (
	fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	span  = regexp.MustCompile("`([^`]+)`")
)

// pages are those whose snippets are tested here.
func pages(t *testing.T) []string {
	guides, err := filepath.Glob(docs + "/migrate/*.md")
	if err != nil || len(guides) < len(migrations) {
		t.Fatalf("%d guides, %v", len(guides), err)
	}
	patterns, err := filepath.Glob(docs + "/patterns/*.md")
	if err != nil || len(patterns) < 11 {
		t.Fatalf("%d patterns, %v", len(patterns), err)
	}
	return slices.Concat(guides, patterns, []string{docs + "/get-started.md", docs + "/comparison.md", docs + "/mesh.md", docs + "/isolation.md"})
}

// Go blocks are in examples: the house's own test looks for them. Here are the others.
func TestSnippetsAreRead(t *testing.T) {
	elsewhere := read(t, "resilience4j/testdata/application.yml") + read(t, "resilience4j/testdata/ShopClient.java") + read(t, "polly/testdata/ShopClient.cs")
	for _, page := range pages(t) {
		for _, b := range fence.FindAllStringSubmatch(read(t, page), -1) {
			language, text := b[1], b[2]
			switch {
			case language == "java" || language == "csharp" || strings.HasPrefix(text, "resilience4j:"):
				if !strings.Contains(flush(elsewhere), flush(text)) {
					t.Errorf("%s: this stands in no file of testdata:\n%s", page, text)
				}
			case language == "yaml" && strings.HasPrefix(text, "apiVersion:"), language == "ini", language == "nginx", language == "text": // e2e/mesh and cmd/gabion read those
			case language == "yaml":
				if _, err := config.Parse(page, []byte(text)); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			case language != "go":
				t.Errorf("%s: no test covers %s", page, language)
			}
		}
	}
}

func flush(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// Tables of settings have a column that is called gabion. What stands there as code is a
// part of a dependency in a file, and has no mistake.
func TestEverySettingIsRead(t *testing.T) {
	for _, m := range migrations {
		column, settings := -1, 0
		for line := range strings.Lines(read(t, m.guide())) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			switch {
			case !strings.HasPrefix(line, "|"):
				column = -1
			case column < 0 && strings.TrimSpace(cells[0]) == "setting":
				for i, c := range cells {
					if strings.TrimSpace(c) == "gabion" {
						column = i
					}
				}
			case column >= 0 && column < len(cells):
				for _, s := range span.FindAllStringSubmatch(cells[column], -1) {
					if goName.MatchString(s[1]) {
						continue
					}
					settings++
					file := "version: 1\ndependencies:\n  shop:\n    " + s[1] + "\n"
					if _, err := config.Parse(m.guide(), []byte(file)); err != nil {
						t.Errorf("%s: %s: %v", m.guide(), s[1], err)
					}
				}
			}
		}
		if settings < 8 {
			t.Errorf("%s: %d settings are translated", m.guide(), settings)
		}
	}
}

// goName is code that is no setting: the house looks whether it exists.
var goName = regexp.MustCompile(`^(Dependency|policy|gabion|gabionhttp|backoff|classify|config)\.[A-Z]`)

// The file of a guide says what its program says.
func TestFilesSayWhatTheProgramsSay(t *testing.T) {
	inCode := map[string]policy.Policy{
		"failsafe-go": failsafego.Policy, "gobreaker-backoff": gobreaker.Policy,
		"go-retryablehttp": retryablehttp.Policy, "hystrix": hystrix.Policy,
	}
	for _, m := range migrations {
		var file string
		for _, b := range fence.FindAllStringSubmatch(read(t, m.guide()), -1) {
			if b[1] == "yaml" && strings.HasPrefix(b[2], "version: 1") {
				file = b[2]
			}
		}
		if m.before == nil {
			if own := string(m.file); file != own {
				t.Errorf("%s has\n%s\nand the program has\n%s", m.guide(), file, own)
			}
			continue
		}
		got, err := config.Parse(m.guide(), []byte(file))
		if err != nil || !reflect.DeepEqual(got.Policies["shop"], inCode[m.name]) {
			t.Errorf("%s: %v: the program has\n%+v", m.guide(), err, inCode[m.name])
		}
	}
}
