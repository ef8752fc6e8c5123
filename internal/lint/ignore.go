package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/suggest"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// ignoreRules are about the comments that ignore findings.
var ignoreRules = []Rule{
	{ID: "G090", Name: "unused-ignore", Severity: Warning, Title: "a comment ignores what is not found any more"},
	{ID: "G091", Name: "ignore-without-reason", Severity: Warning, Title: "a comment ignores a rule and does not say why"},
	{ID: "G092", Name: "ignore-of-no-rule", Severity: Warning, Title: "a comment ignores what is no rule, or what can't be ignored"},
}

// Ignored is a finding that a comment in its file ignores:
//
//	retry: {attempts: 8}  # gabion:ignore G010 the batch job has the whole night
//
// The comment is on the line of the finding, or alone on the line above it. On the line of
// a dependency's name, or above that, it is for the whole dependency. It names one rule or
// several, and has to say why.
type Ignored struct {
	Finding
	Line int    // of the comment
	Why  string // what the comment says
}

// ignore is a comment that ignores rules.
type ignore struct {
	at         yamlstrict.Comment
	ids        []string
	why        string
	dependency string // the one whose name it is at, if it is
	used       map[string]bool
}

const directive = "gabion:ignore"

// ignores takes out of the report what comments ignore, and adds what is wrong with them.
func (r *run) ignores(files []*config.File) {
	for _, f := range files {
		all := r.ignoresOf(f)
		if len(all) == 0 {
			continue
		}
		r.report.Findings = slices.DeleteFunc(r.report.Findings, func(found Finding) bool {
			i := ignoring(all, f.Name, found)
			if i == nil {
				return false
			}
			i.used[found.Rule.ID] = true
			r.report.Ignored = append(r.report.Ignored, Ignored{found, i.at.Line, i.why})
			return true
		})
		r.unused(f, all, len(files))
	}
}

// ignoring returns the comment that ignores a finding, or nil.
func ignoring(all []*ignore, file string, found Finding) *ignore {
	if found.File != file {
		return nil
	}
	for _, i := range all {
		if slices.Contains(i.ids, found.Rule.ID) && (i.at.About == found.Line || i.dependency != "" && i.dependency == found.Dependency) {
			return i
		}
	}
	return nil
}

// ignoresOf returns the comments of a file that ignore something.
func (r *run) ignoresOf(f *config.File) (all []*ignore) {
	var names map[int]string
	for _, c := range policyfile.Of(f).Comments() {
		word, rest := c.Text, ""
		if at := strings.IndexFunc(word, unicode.IsSpace); at >= 0 {
			word, rest = word[:at], word[at:]
		}
		if word != directive {
			r.slip(f, c, word)
			continue
		}
		if names == nil {
			names = linesOfNames(f)
		}
		if i := r.readIgnore(f, c, rest); i != nil {
			i.dependency = names[c.About]
			all = append(all, i)
		}
	}
	return all
}

// linesOfNames returns the dependencies by the line that their name is on.
func linesOfNames(f *config.File) map[int]string {
	names := map[int]string{}
	for _, name := range f.Names() {
		names[config.Finding(policyfile.Of(f).Finding(name, "", "", "")).Line] = name
	}
	return names
}

// nearly is a directive that is written in another way, and the id of a rule. It is the id that
// tells it from prose.
var nearly = regexp.MustCompile(`^((?i:gabion)\s*[:_-]?\s*(?i:ignore))\b[\s:(]*[Gg]\d{2,}`)

// slip finds a comment that was meant to ignore something.
func (r *run) slip(f *config.File, c yamlstrict.Comment, word string) {
	if m := nearly.FindStringSubmatch(c.Text); m != nil {
		word = m[1]
	} else if len(word) <= len("gabion:") || !strings.HasPrefix(word, "gabion:") || suggest.Nearest(strings.TrimRight(word, ":"), []string{directive}) == "" {
		return
	}
	r.aboutIgnore("G092", f, c, fmt.Sprintf("%q ignores nothing", word), "write # "+directive+" ID reason")
}

var (
	idForm      = regexp.MustCompile(`^[Gg][0-9A-Za-z]{1,4}$`)
	idSeparator = regexp.MustCompile(`^[\s,]*(\S+?)([,:\s]|$)`)
)

// readIgnore reads what follows the word: ids, and a reason. It returns nil for a comment
// without a reason: that ignores nothing.
func (r *run) readIgnore(f *config.File, c yamlstrict.Comment, text string) *ignore {
	i := &ignore{at: c, used: map[string]bool{}}
	more := true // an id has to follow
	for {
		m := idSeparator.FindStringSubmatch(text)
		if m == nil || !more && !(idForm.MatchString(m[1]) && strings.ContainsAny(m[1], "0123456789")) {
			break
		}
		r.addID(i, f, m[1])
		text = text[len(m[0]):]
		if m[2] == ":" {
			break
		}
		more = m[2] == "," || strings.HasPrefix(strings.TrimSpace(text), ",")
	}
	i.why = strings.TrimSpace(strings.TrimLeft(text, " \t-–—:("))
	i.why = strings.TrimSuffix(i.why, ")")
	if len(i.ids) == 0 && more {
		r.aboutIgnore("G092", f, c, "no rule is named", "write # "+directive+" ID reason")
		return nil
	}
	if i.why == "" {
		named := strings.Join(i.ids, " ")
		if named == "" {
			return nil // which was said
		}
		r.aboutIgnore("G091", f, c, named+" is ignored without a reason, so it is not ignored", "write # "+directive+" "+named+" and why that is right here")
		return nil
	}
	return i
}

// addID adds a rule to what a comment ignores, or says what is wrong with it.
func (r *run) addID(i *ignore, f *config.File, word string) {
	var known []string
	for _, rule := range Rules() {
		known = append(known, rule.ID)
		switch {
		case strings.EqualFold(rule.ID, word) && (rule.ID == brokenID || slices.ContainsFunc(ignoreRules, func(x Rule) bool { return x.ID == rule.ID })):
			r.aboutIgnore("G092", f, i.at, rule.ID+" can't be ignored", "mend what it says")
			return
		case strings.EqualFold(rule.ID, word):
			i.ids = append(i.ids, rule.ID)
			return
		case rule.Name == word:
			r.aboutIgnore("G092", f, i.at, fmt.Sprintf("%q is the name of a rule", word), "write its id, "+rule.ID)
			return
		}
	}
	r.aboutIgnore("G092", f, i.at, fmt.Sprintf("there is no rule %.40q", word), suggest.For(word, known, "gabion lint --list lists the rules"))
}

const brokenID = "G000"

// unused reports comments whose rule finds nothing there, if the rule was looked at with
// all that it needs.
func (r *run) unused(f *config.File, all []*ignore, files int) {
	inFile := func(found Finding) bool { return found.Rule.ID == brokenID && found.File == f.Name }
	if slices.ContainsFunc(r.report.Findings, inFile) {
		return
	}
	for _, i := range all {
		for _, id := range i.ids {
			at := slices.IndexFunc(r.rules, func(rule Rule) bool { return rule.ID == id })
			unknown := func(u Unknown) bool { return u.Rule.ID == id && u.File == f.Name }
			if at < 0 || i.used[id] || slices.ContainsFunc(r.report.Unknown, unknown) {
				continue
			}
			how, reason := Warning, id+" finds nothing here any more"
			if rule := r.rules[at]; (rule.across != nil || rule.graph != nil) && files == 1 {
				how, reason = Note, id+" finds nothing here; it looks at several files, and this is one"
			}
			r.aboutIgnoreAs(how, "G090", f, i.at, reason, "remove the comment, or the id from it")
		}
	}
}

func (r *run) aboutIgnore(id string, f *config.File, c yamlstrict.Comment, reason, proposal string) {
	r.aboutIgnoreAs(Warning, id, f, c, reason, proposal)
}

// aboutIgnoreAs reports a finding about a comment, if its rule is looked at.
func (r *run) aboutIgnoreAs(how Severity, id string, f *config.File, c yamlstrict.Comment, reason, proposal string) {
	for _, rule := range r.rules {
		if rule.ID == id {
			r.report.Findings = append(r.report.Findings, Finding{Rule: rule, Severity: how, Finding: config.Finding(policyfile.Of(f).FindingAt(c.Line, c.Col, reason, proposal))})
		}
	}
}
