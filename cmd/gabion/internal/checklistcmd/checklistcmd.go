// Package checklistcmd is what gabion checklist does: it asks what no rule can answer, and
// keeps the answers.
package checklistcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/suggest"
)

const usage = `usage: gabion checklist FILE [--format FORMAT] [--dependency NAME] [--open]
                        [--max-age DAYS] [--answers FILE]
       gabion checklist answer FILE --question ID --answer ANSWER
                        [--dependency NAME] [--by NAME] [--note TEXT]
                        [--answers FILE]

asks what has to be so before a policy ships, for the program and for each
dependency. Rules of gabion lint answer what they can; people answer the rest.
FILE is a gabion.yaml. The answers are kept beside it, in gabion.answers.yaml.

An answer is stale when the question or the part of the policy that it is about
has changed, or when it is too old. It then counts as open.

  --format FORMAT    text, json, or markdown for a pull request; usual is text
  --dependency NAME  only this one; with answer, the one that it is about: none
                     means the program
  --open             only what is open, stale, or answered with no
  --max-age DAYS     how many days an answer holds; usual is 365, 0 means ever
  --answers FILE     the file of answers
  --question ID      the question, such as C01
  --answer ANSWER    yes, no or not-applicable
  --by NAME          who answers; usual is $USER
  --note TEXT        how that was found out, such as the name of a test

Exit codes: 0 everything is answered with yes or not-applicable, 1 something is
open, stale or answered with no, or a file has mistakes, 2 called wrongly, 3 a
file can't be read or written. gabion lint --questions shows what is open beside
what the rules find.
`

var formats = []string{"text", "json", "markdown"}

// usualMaxAge is how many days an answer holds.
const usualMaxAge = 365

// request is what the command line asks for.
type request struct {
	format, dependency, answersFile string
	open                            bool
	maxAge                          int
	question, answer, by, note      string

	today          day
	user           string
	stdout, stderr io.Writer
}

// wrong is a usage error.
type wrong struct{ error }

// Command is gabion checklist: it shows the checklist of a file, or writes an answer.
func Command() *cobra.Command {
	return (&request{today: dayOf(time.Now()), user: os.Getenv("USER")}).command()
}

func (r *request) command() *cobra.Command {
	c := cli.Command("checklist", "what has to be so before a policy ships, and who said that it is", usage, r.main)
	flags := c.Flags()
	for name, to := range map[string]*string{
		"format": &r.format, "dependency": &r.dependency, "answers": &r.answersFile, "question": &r.question, "answer": &r.answer, "by": &r.by, "note": &r.note,
	} {
		flags.StringVar(to, name, "", "")
	}
	flags.BoolVar(&r.open, "open", false, "")
	flags.IntVar(&r.maxAge, "max-age", usualMaxAge, "")
	return c
}

func (r *request) main(c *cobra.Command, words []string) int {
	r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
	code, err := r.do(words)
	var caller wrong
	switch {
	case errors.As(err, &caller):
		fmt.Fprintf(r.stderr, "gabion checklist: %v\n\n%s", err, usage)
		return cli.ExitUsage
	case err != nil:
		fmt.Fprintln(r.stderr, "gabion checklist:", err)
		return cli.ExitFailure
	}
	return code
}

// do shows the list or writes an answer, and returns the exit code.
func (r *request) do(words []string) (code int, err error) {
	answering := len(words) > 0 && words[0] == "answer"
	if answering {
		words = words[1:]
	}
	given := r.question != "" || r.answer != "" || r.by != "" || r.note != ""
	switch {
	case len(words) == 0:
		return 0, wrong{errors.New("no file is named")}
	case len(words) > 1:
		return 0, wrong{fmt.Errorf("%q is not expected: one file at a time", words[1])}
	case !answering && given:
		return 0, wrong{errors.New("--question, --answer, --by and --note are for gabion checklist answer FILE")}
	case answering && (r.format != "" || r.open):
		return 0, wrong{errors.New("--format and --open are for gabion checklist FILE")}
	case r.maxAge < 0:
		return 0, wrong{fmt.Errorf("--max-age %d is negative", r.maxAge)}
	case r.format != "" && !slices.Contains(formats, r.format):
		return 0, wrong{fmt.Errorf("--format %.40q is not known: %s", r.format, suggest.For(r.format, formats, "use one of "+strings.Join(formats, ", ")))}
	}
	j, mistakes, err := r.read(words[0])
	if err != nil {
		return 0, err
	}
	if answering {
		return r.write(j, mistakes)
	}
	return r.show(j, mistakes)
}

// read reads the policy file and the answers, and says what is wrong with them.
func (r *request) read(path string) (j *judge, mistakes int, err error) {
	text, err := readText(path)
	if err != nil {
		return nil, 0, err
	}
	f, broken := config.Read(path, text)
	if _, ok := f.Policies[r.dependency]; r.dependency != "" && !ok {
		return nil, 0, wrong{fmt.Errorf("%s has no dependency %.60q: %s", path, r.dependency, suggest.For(r.dependency, f.Names(), "gabion config print lists them"))}
	}
	if r.answersFile == "" {
		r.answersFile = answersBeside(path)
	}
	a, found, err := readAnswers(r.answersFile, r.today)
	if err != nil {
		return nil, 0, err
	}
	for _, mistake := range broken {
		fmt.Fprintln(r.stderr, fold.Lines(mistake.Error()))
	}
	for _, mistake := range found {
		fmt.Fprintln(r.stderr, fold.Lines(mistake.Error()))
	}
	report := lint.Run([]*config.File{f}, lint.Options{})
	return &judge{file: f, report: report, answers: a, today: r.today, maxAge: r.maxAge}, len(broken) + len(found), nil
}

// show shows the list.
func (r *request) show(j *judge, mistakes int) (code int, err error) {
	all := slices.DeleteFunc(j.items(), func(i item) bool { return r.dependency != "" && i.Dependency != r.dependency })
	left := 0
	for _, i := range all {
		if !i.settled() {
			left++
		}
	}
	l := list{Version: 1, File: j.file.Name, Answers: r.answersFile, Asked: len(all), Open: left, Items: all, Orphans: j.orphans()}
	if r.open {
		l.Items = slices.DeleteFunc(l.Items, item.settled)
	}
	if left+mistakes > 0 {
		code = cli.ExitFindings
	}
	return code, l.write(r.stdout, r.format)
}

// write writes one answer.
func (r *request) write(j *judge, mistakes int) (code int, err error) {
	if mistakes > 0 {
		return cli.ExitFindings, nil // writing would lose what could not be read
	}
	q, known := questionOf(r.question)
	about := cmp.Or(r.dependency, "the program")
	by := r.by
	if by == "" {
		by = r.user
	}
	switch _, problem, proposal := parseAnswer(r.answer); {
	case r.question == "":
		return 0, wrong{errors.New("no question is named: --question ID is missing")}
	case !known:
		return 0, wrong{fmt.Errorf("there is no question %.40q: %s", r.question, suggest.For(r.question, idsOf(r.dependency == ""), "gabion checklist FILE lists them"))}
	case q.program && r.dependency != "":
		return 0, wrong{fmt.Errorf("%s is about the program: leave --dependency out", q.id)}
	case !q.program && r.dependency == "":
		return 0, wrong{fmt.Errorf("%s is about a dependency: --dependency NAME is missing", q.id)}
	case q.asked != nil && !q.asked(j.file, r.dependency):
		return 0, wrong{fmt.Errorf("%s is not asked of %s with this file", q.id, about)}
	case problem != "":
		return 0, wrong{fmt.Errorf("--answer %.40q %s: %s", r.answer, problem, proposal)}
	case oneLine(by) == "":
		return 0, wrong{errors.New("who answers? --by NAME is missing")}
	}
	if state, rule, _ := j.rules(q, r.dependency); state != isOpen {
		return 0, wrong{fmt.Errorf("%s is answered by %s: %s; a comment # gabion:ignore can overrule it", q.id, rule, state)}
	}
	j.answers.set(q.id, r.dependency, entry{
		Answer: answer(r.answer), By: oneLine(by), At: r.today, Note: oneLine(r.note), Question: hashOf(q.text, q.check), Policy: j.policy(q, r.dependency),
	})
	if err := j.answers.write(r.answersFile); err != nil {
		return 0, err
	}
	_, err = fmt.Fprintf(r.stdout, "%s: %s for %s: %s\n", r.answersFile, q.id, about, r.answer)
	return cli.ExitOK, err
}
