package lint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

// lines returns what a report says of a text: "line id", and "line id = reason" for what
// is ignored.
func lines(text string, o Options) string {
	f, broken := config.Read("gabion.yaml", []byte(text))
	if len(broken) > 0 {
		o.Broken = []config.Findings{broken}
	}
	r := Run([]*config.File{f}, o)
	var all []string
	for _, f := range r.Findings {
		all = append(all, fmt.Sprintf("%d %s", f.Finding.Line, f.Rule.ID))
	}
	for _, i := range r.Ignored {
		all = append(all, fmt.Sprintf("%d %s by %d = %s", i.Finding.Finding.Line, i.Rule.ID, i.Line, i.Why))
	}
	return strings.Join(all, ", ")
}

func TestCommentsIgnoreFindings(t *testing.T) {
	const ids = "G000 G010 G090 G091 G092"
	// G010 is found at line 5, where the attempts stand.
	file := func(name, attempts string) string {
		return "version: 1\ndependencies:\n  stock:" + name + "\n    timeout: {call: 5s, attempt: 2s}\n    retry: {attempts: 3}" + attempts + "\n"
	}
	above := func(comments string) string {
		return "version: 1\ndependencies:\n  stock:\n    timeout: {call: 5s, attempt: 2s}\n" + comments + "    retry: {attempts: 3}\n"
	}
	for _, c := range []struct{ fact, text, want string }{
		{"none", file("", ""), "5 G010"},
		{"on the line", file("", " # gabion:ignore G010 one reason"), "5 G010 by 5 = one reason"},
		{"on the line above", above("    # gabion:ignore G010 one reason\n"), "6 G010 by 5 = one reason"},
		{"further up, with comments between", above("# gabion:ignore G010 one reason\n # more\n"), "7 G010 by 5 = one reason"},
		{"an empty line between", above("# gabion:ignore G010 one reason\n\n"), "5 G090, 7 G010"},
		{"on the line above, behind a value", strings.Replace(file("", ""), "2s}", "2s} # gabion:ignore G010 one reason", 1), "4 G090, 5 G010"},
		{"at the dependency", file(" # gabion:ignore G010 one reason", ""), "5 G010 by 3 = one reason"},
		{"above the dependency", strings.Replace(file("", ""), "  stock", "  # gabion:ignore G010 one reason\n  stock", 1), "6 G010 by 3 = one reason"},
		{"at another dependency", file("", "") + "  pay: {} # gabion:ignore G010 one reason\n", "5 G010, 6 G090"},
		{"in quotes", strings.Replace(file("", ""), "stock:", `"stock":`, 1), "5 G010"},
		{"no reason", file("", " # gabion:ignore G010"), "5 G010, 5 G091"},
		{"no reason, several", file("", " # gabion:ignore G010, G000 -"), "5 G010, 5 G091, 5 G092"},
		{"no rule", file("", " # gabion:ignore"), "5 G010, 5 G092"},
		{"words for a rule", file("", " # gabion:ignore the last may be late"), "5 G010, 5 G092"},
		{"several, with commas", file("", " # gabion:ignore G092, G010 - one reason"), "5 G092, 5 G010 by 5 = one reason"},
		{"several, without a comma", file("", " # gabion:ignore G000 G010: one reason"), "5 G092, 5 G010 by 5 = one reason"},
		{"several, without blanks", file("", " # gabion:ignore G011x,g010 (one reason)"), "5 G092, 5 G010 by 5 = one reason"},
		{"by its name", file("", " # gabion:ignore attempts-do-not-fit one reason"), "5 G010, 5 G092"},
		{"mistakes can't be", "version: 1\ndependencies: {a: {x: 1}} # gabion:ignore G000 one reason\n", "2 G000, 2 G092"},
		{"findings about ignores can't be", file("", " # gabion:ignore G010,G091 one reason"), "5 G092, 5 G010 by 5 = one reason"},
		{"a slip in the word", file("", " # gabion:ignroe G010 one reason"), "5 G010, 5 G092"},
		{"a blank behind the colon", file("", " # gabion: ignore G010 one reason"), "5 G010, 5 G092"},
		{"a blank before the colon", file("", " # gabion :ignore G010 one reason"), "5 G010, 5 G092"},
		{"capitals", file("", " # Gabion:Ignore G010 one reason"), "5 G010, 5 G092"},
		{"a hyphen for the colon", file("", " # gabion-ignore G010 one reason"), "5 G010, 5 G092"},
		{"a blank for the colon", file("", " # gabion ignore G010 one reason"), "5 G010, 5 G092"},
		{"a blank behind the colon, above the dependency", strings.Replace(file("", ""), "  stock", "  # gabion: ignore: G010 one reason\n  stock", 1), "3 G092, 6 G010"},
		{"a tab behind the word", file("", " # gabion:ignore\tG010 one reason"), "5 G010 by 5 = one reason"},
		{"no comment of ours", file("", " # gabion: ignores G010 here"), "5 G010"},
		{"prose", file("", " # gabion: ignore what follows"), "5 G010"},
		{"prose without a colon", file("", " # Gabion ignore lists are elsewhere"), "5 G010"},
		{"two comments for one finding", file(" # gabion:ignore G010 one reason", " # gabion:ignore G010 another"), "5 G090, 5 G010 by 3 = one reason"},
		{"a file with mistakes says nothing of unused ones", "version: 1\ndependencies: {a: {x: 1}} # gabion:ignore G010 one reason\n", "2 G000"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if got := lines(c.text, Options{Rules: strings.Fields(ids)}); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestIgnoresOfRulesThatAreNotLookedAtAreNotUnused(t *testing.T) {
	text := "version: 1\ndependencies: {a: {timeout: {call: 1h}}} # gabion:ignore G010 one reason\n"
	if got := lines(text, Options{Rules: []string{"G090"}}); got != "" {
		t.Error(got)
	}
	if got := lines(text, Options{Rules: []string{"G010", "G090"}}); got != "2 G090" {
		t.Error(got)
	}
	if got := lines(text, Options{Rules: []string{"G010"}}); got != "" {
		t.Error(got)
	}
}

// One file of many does not show what they have together.
func TestAnIgnoreOfARuleOverFilesIsANoteInOne(t *testing.T) {
	text := "version: 1\ndependencies: {a: {}} # gabion:ignore G010 one reason\n"
	f, _ := config.Read("gabion.yaml", []byte(text))
	r := run{rules: []Rule{{ID: "G010", across: func(*run, []*config.File) {}}, ignoreRules[0]}}
	r.ignores([]*config.File{f})
	if found := r.report.Findings; len(found) != 1 || found[0].Severity != Note {
		t.Errorf("%v", found)
	}
	r = run{rules: r.rules}
	r.ignores([]*config.File{f, f})
	if found := r.report.Findings; len(found) != 2 || found[0].Severity != Warning {
		t.Errorf("%v", found)
	}
}

// Whatever a comment says, it takes out of a report what it is about, or nothing.
func FuzzIgnore(f *testing.F) {
	f.Add("gabion:ignore G010 one reason")
	f.Add("gabion:ignore ,,G010,")
	f.Add("gabion:ignore G000 G090")
	f.Fuzz(func(t *testing.T, comment string) {
		text := "version: 1\ndependencies:\n  stock:\n    timeout: {call: 5s, attempt: 2s}\n    retry: {attempts: 3} # " + comment + "\n"
		f, broken := config.Read("gabion.yaml", []byte(text))
		r := Run([]*config.File{f}, Options{Broken: []config.Findings{broken}, Rules: []string{"G010", "G090", "G091", "G092"}})
		found := 0
		for _, f := range r.Findings {
			if f.Rule.ID == "G010" {
				found++
			}
		}
		if len(broken) == 0 && found+len(r.Ignored) != 1 {
			t.Errorf("%v, ignored %v", r.Findings, r.Ignored)
		}
		for _, i := range r.Ignored {
			if i.Why == "" || !strings.HasPrefix(strings.TrimSpace(comment), directive) {
				t.Errorf("%+v", i)
			}
		}
	})
}
