package checklistcmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gabion-go/gabion/cmd/gabion/internal/wholefile"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// answer is what a person says to a question.
type answer string

var answers = []string{"yes", "no", "not-applicable"}

// day is a day of the calendar, in UTC: 2026-03-01.
type day string

func dayOf(t time.Time) day { return day(t.UTC().Format(time.DateOnly)) }

// before is how many days d is before another day.
func (d day) before(other day) int {
	a, _ := time.Parse(time.DateOnly, string(d)) // what is no day was refused when it was read
	b, _ := time.Parse(time.DateOnly, string(other))
	return int(b.Sub(a).Hours() / 24)
}

// entry is an answer in the file of answers. Hashes are of what was asked and of the part
// of the policy that it was asked of, so that an answer does not outlive them.
type entry struct {
	Answer   answer
	By       string
	At       day
	Note     string
	Question string // hash
	Policy   string // hash
}

// answerFile is the file of answers: those about the program by question, those about
// dependencies by name and question.
type answerFile struct {
	Version      int
	Program      map[string]entry
	Dependencies map[string]map[string]entry
}

// of returns the answer to a question; about the program where no dependency is named.
func (a *answerFile) of(id, dependency string) (entry, bool) {
	if dependency == "" {
		e, ok := a.Program[id]
		return e, ok
	}
	e, ok := a.Dependencies[dependency][id]
	return e, ok
}

func (a *answerFile) set(id, dependency string, e entry) {
	if dependency == "" {
		if a.Program == nil {
			a.Program = map[string]entry{}
		}
		a.Program[id] = e
		return
	}
	if a.Dependencies == nil {
		a.Dependencies = map[string]map[string]entry{}
	}
	if a.Dependencies[dependency] == nil {
		a.Dependencies[dependency] = map[string]entry{}
	}
	a.Dependencies[dependency][id] = e
}

// answersBeside is the file of answers of a policy file: gabion.answers.yaml beside
// gabion.yaml.
func answersBeside(policy string) string {
	return strings.TrimSuffix(policy, filepath.Ext(policy)) + ".answers.yaml"
}

// readAnswers reads a file of answers. One that is not there has no answers.
func readAnswers(path string, today day) (*answerFile, yamlstrict.Findings, error) {
	text, err := readText(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &answerFile{Version: 1}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	a, found := parseAnswers(path, text, today)
	return a, found, nil
}

// readText stops where a file is refused: a path may name something endless.
func readText(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, yamlstrict.MaxSize+1))
}

// parseAnswers reads the text of a file of answers, strictly. What is right in it is
// returned with the mistakes.
func parseAnswers(name string, text []byte, today day) (*answerFile, yamlstrict.Findings) {
	doc, found := yamlstrict.Parse(name, text, yamlstrict.Options{Scalars: map[reflect.Type]yamlstrict.Scalar{
		reflect.TypeFor[answer](): {Words: answers, Parse: parseAnswer},
		reflect.TypeFor[day]():    {Parse: parseDay(today)},
	}})
	a := &answerFile{}
	if len(found) > 0 {
		return a, found
	}
	places, found := doc.Decode(a)
	fail := func(path, reason, proposal string) {
		at := places[path]
		found = append(found, doc.Finding(at.Line, at.Col, reason, proposal))
	}
	switch at, written := places["version"]; {
	case !written:
		fail("", "version is missing", "begin with version: 1")
	case a.Version != 1 && !at.Wrong:
		fail("version", fmt.Sprintf("version %d is not known", a.Version), "write version: 1, or use a newer gabion")
	}
	check := func(path, dependency string, all map[string]entry) {
		for id, e := range all {
			at := path + "." + id
			if q, ok := questionOf(id); !ok || q.program != (dependency == "") {
				fail(at, fmt.Sprintf("%s: there is no question %.40q here", path, id), suggest.For(id, idsOf(dependency == ""), "gabion checklist lists them"))
				delete(all, id)
				continue
			}
			for key, missing := range map[string]bool{"answer": e.Answer == "", "by": e.By == "", "at": e.At == ""} {
				if missing && !places[at+"."+key].Wrong {
					fail(at, at+": "+key+" is missing", "write it, or answer with gabion checklist answer")
				}
			}
			if e.Answer == "" || e.By == "" || e.At == "" {
				delete(all, id) // it is open
			}
		}
	}
	check("program", "", a.Program)
	for dependency, all := range a.Dependencies {
		check("dependencies."+dependency, dependency, all)
	}
	return a, found.Sort()
}

func parseAnswer(text string) (any, string, string) {
	if slices.Contains(answers, text) {
		return answer(text), "", ""
	}
	return nil, "is no answer", "write yes, no or not-applicable"
}

func parseDay(today day) func(string) (any, string, string) {
	return func(text string) (any, string, string) {
		if t, err := time.Parse(time.DateOnly, text); err != nil || t.Format(time.DateOnly) != text {
			return nil, "is no day", "write it like " + string(today)
		}
		if day(text).before(today) < -1 { // it may be tomorrow elsewhere
			return nil, "is in the future", "today is " + string(today)
		}
		return day(text), "", ""
	}
}

// write replaces the file of answers.
func (a *answerFile) write(path string) error {
	return wholefile.Replace(path, []byte(a.text()), 0o644)
}

// text is the file of answers, the same for the same answers.
func (a *answerFile) text() string {
	var b strings.Builder
	b.WriteString("# Written by gabion checklist answer. Comments in it are lost: write them as notes.\nversion: 1\n")
	section := func(indent string, all map[string]entry) {
		for _, id := range slices.Sorted(maps.Keys(all)) {
			e := all[id]
			fmt.Fprintf(&b, "%s%s:\n", indent, id)
			for _, line := range [][2]string{{"answer", string(e.Answer)}, {"by", quoted(e.By)}, {"at", string(e.At)}, {"note", quoted(e.Note)}, {"question", quoted(e.Question)}, {"policy", quoted(e.Policy)}} {
				if line[1] != "" {
					fmt.Fprintf(&b, "%s  %s: %s\n", indent, line[0], line[1])
				}
			}
		}
	}
	if len(a.Program) > 0 {
		b.WriteString("program:\n")
		section("  ", a.Program)
	}
	if len(a.Dependencies) > 0 {
		b.WriteString("dependencies:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Dependencies)) {
		fmt.Fprintf(&b, "  %s:\n", quoted(name))
		section("    ", a.Dependencies[name])
	}
	return b.String()
}

// quoted is a text as YAML, on one line. A dollar would begin a variable.
func quoted(text string) string {
	if text = oneLine(text); text == "" {
		return ""
	}
	return "'" + strings.NewReplacer("'", "''", "$", "$$").Replace(text) + "'"
}

// oneLine is a text without what a line of a file can't hold.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	return strings.Join(strings.Fields(text), " ")
}
