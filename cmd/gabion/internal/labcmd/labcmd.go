// Package labcmd is what gabion lab run, list, show and explain do.
package labcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/lab"
)

// RunUsage is the help of gabion lab run.
const RunUsage = `usage: gabion lab run SCENARIO [--config FILE] [--against FILE|NAME|off]
                      [--as NAME=DEPENDENCY] [--against-as NAME=DEPENDENCY]
                      [--seed N] [--replications N] [--workers N]
                      [--map] [--json] [--report FILE.html]
                      [--markdown FILE.md] [--junit FILE.xml]
                      [--sweep KEY=VALUES]
                      [--record FILE] [--record-of NAME[/N]]

Runs a scenario in virtual time, many times over, and says what the runs came
to. SCENARIO is a name that gabion lab list shows, a file, or - for standard
input.

  --config FILE      go by the policies of this file instead of the scenario's,
                     by name; FORMAT:FILE is a file of another system, such as
                     istio:vs.yaml, which plays by its own rules (gabion import
                     -h has the formats): its only route stands for all policies
  --against WHAT     compare with another FILE or FORMAT:FILE; with an opponent
                     by its name, such as plain, naive, resilience4j or polly
                     (gabion lab opponents shows them); or with nothing: off
  --as NAME=DEP      the scenario's policy NAME is the dependency DEP of the
                     files; '*=DEP' makes all its policies be DEP, each with its
                     own timeouts, key and safety
  --against-as NAME=DEP
                     of the other side, in place of --as; without --against the
                     other side is the same file: two of its dependencies are
                     compared
  --seed N           what all randomness comes from
  --replications N   how many runs
  --workers N        how many of them at once; it changes nothing but the time
  --map              look also where runs stay down, over load and trigger
  --json             print one JSON object on stdout, and nothing else
  --report FILE      write the report as one HTML page
  --markdown FILE    write who wins, the assertions and the headlines as
                     Markdown, for the comment of a pull request
  --junit FILE       write the assertions as JUnit XML, for a CI server
  --record FILE      write every decision about one client in the first run, for
                     gabion explain and gabion page; into a folder, which ends
                     in /, a file for each side, and else of the first side
  --record-of NAME/N whose: client N of the clients NAME, with all that share
                     what it knows, or replica N of the service NAME that calls
                     others; usual is the first of the first clients
  --sweep KEY=VALUES try several values of a key of the policies with the same
                     random numbers, and say which is best for whom:
                     breaker.open=1s,5s,30s are three, breaker.open=1s..30s are
                     six, 1s..30s:10:linear are ten at equal distances, and :log
                     in equal ratios; db.breaker.open is of the policy db only

Whatever is compared, the plain client is a third side: one try, with the same
timeouts of the call and of the attempt, and without breaker, bulkhead, budget
and pacing.

The exit code is 1 when a file has mistakes or an assertion does not hold. One
that is unresolved has not failed: more replications would tell. One that every
run breaks has, however few they are.
`

// ExplainUsage is the help of gabion lab explain.
const ExplainUsage = `usage: gabion lab explain SCENARIO [--config FILE] [--as NAME=DEPENDENCY]
                          [--seed N] [--fleet NAME] [--client N]
                          [--from DURATION] [--to DURATION]

Runs a scenario once, and writes down each decision about the calls of one
client, from ten seconds before the trouble until ten seconds after it.

  --config FILE    go by the policies of this file instead of the scenario's
  --as NAME=DEP    the scenario's policy NAME is the dependency DEP of the file
  --seed N         what all randomness comes from
  --fleet NAME     whose calls: those of the clients NAME; usual is the first
  --client N       which of them (default 0, the first)
  --from DURATION  begin there, counted from the scenario's begin
  --to DURATION    end there
`

// ListUsage is the help of gabion lab list.
const ListUsage = `usage: gabion lab list [--families]

names the scenarios that come with gabion

  --families  also those that are generated around them, for tournaments
`

// ShowUsage is the help of gabion lab show.
const ShowUsage = `usage: gabion lab show SCENARIO [--policies]
       gabion lab show --schema

prints a scenario's file, to read or to start from; or the JSON Schema of such
files

  --schema    print the JSON Schema of such files
  --policies  print the names of the policies by which it goes instead, one a
              line: those that gabion lab run --as NAME=DEPENDENCY is for
`

// request is what the command line asks for.
type request struct {
	c              *cobra.Command
	stdin          io.Reader
	stdout, stderr io.Writer

	config, against string
	as, againstAs   renames
	options         lab.Options
}

// renames collects --as and --against-as flags.
type renames map[string]string

func (r renames) String() string { return "" }

func (r renames) Type() string { return "NAME=DEP" }

func (r renames) Set(text string) error {
	name, dependency, ok := strings.Cut(text, "=")
	if !ok || name == "" || dependency == "" {
		return errors.New("write NAME=DEPENDENCY")
	}
	r[name] = dependency
	return nil
}

func newRequest() *request {
	return &request{stdin: os.Stdin, as: renames{}, againstAs: renames{}}
}

// command makes the request a command that takes a number of words.
func (r *request) command(name, says, usage string, want int, run func(words []string) int) *cobra.Command {
	r.c = cli.Command(name, says, usage, func(c *cobra.Command, words []string) int {
		r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
		if code := r.expect(words, want); code >= 0 {
			return code
		}
		return run(words)
	})
	return r.c
}

// expect checks the number of words. A code of 0 or more ends the command.
func (r *request) expect(words []string, want int) int {
	switch {
	case len(words) > want:
		return r.wrongly(fmt.Sprintf("%q is not expected", words[want]))
	case len(words) < want:
		return r.wrongly("no scenario is named; gabion lab list shows them")
	}
	return -1
}

func (r *request) policies() {
	flags := r.c.Flags()
	flags.StringVar(&r.config, "config", "", "")
	flags.Var(r.as, "as", "")
	flags.Uint64Var(&r.options.Seed, "seed", 0, "")
}

// wrongly says what is wrong with a command line, and then how it should look.
func (r *request) wrongly(problem string) int {
	return cli.Wrongly(r.c, problem)
}

// failed says what went wrong.
func (r *request) failed(err error) int { return Failed(r.stderr, r.c.CommandPath(), err) }

// Failed says what went wrong in a command with a scenario, and returns the exit code.
func Failed(to io.Writer, command string, err error) int {
	var mistakes lab.Findings
	var wrong config.Findings
	switch {
	case errors.As(err, &mistakes), errors.As(err, &wrong), errors.As(err, new(finding.Findings)):
		fmt.Fprintln(to, err)
		return cli.ExitFindings
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(to, "%s: interrupted\n", command)
		return cli.ExitInterrupted
	}
	fmt.Fprintf(to, "%s: %v\n", command, strings.TrimPrefix(err.Error(), "lab: "))
	return cli.ExitFailure
}

// load reads a scenario.
func (r *request) load(name string) (*lab.Scenario, error) {
	if name != "-" {
		return lab.Load(name)
	}
	text, err := io.ReadAll(io.LimitReader(r.stdin, 2<<20)) // Parse refuses more than half of it
	if err != nil {
		return nil, err
	}
	return lab.Parse("stdin", text)
}

// loadPolicies reads the files that the flags name.
func (r *request) loadPolicies() (err error) {
	r.options.As, r.options.AgainstAs = r.as, r.againstAs
	if r.config != "" {
		if r.options.Config, r.options.Theirs, err = r.open(r.config); err != nil {
			return err
		}
	}
	switch r.against {
	case "":
	case "off":
		r.options.Alone = true
	default:
		if !strings.ContainsAny(r.against, `/\.:`) {
			if _, err := os.Stat(r.against); err != nil {
				r.options.Rival = r.against
				return nil //nolint:nilerr // no file of that name: it is a rival's
			}
		}
		r.options.Against, r.options.AgainstTheirs, err = r.open(r.against)
	}
	return err
}

// Run is gabion lab run: it runs a scenario.
func Run() *cobra.Command {
	r := newRequest()
	var asJSON bool
	var swept sweepFlag
	var recording *recording
	var to *outputs
	c := r.command("run", "run a scenario, and say what the runs came to", RunUsage, 1, func(words []string) int {
		return r.runAndTell(words[0], swept, asJSON, recording, to)
	})
	r.policies()
	flags := c.Flags()
	flags.StringVar(&r.against, "against", "", "")
	flags.Var(r.againstAs, "against-as", "")
	flags.IntVar(&r.options.Replications, "replications", 0, "")
	flags.IntVar(&r.options.Workers, "workers", 0, "")
	flags.BoolVar(&r.options.Map, "map", false, "")
	flags.BoolVar(&asJSON, "json", false, "")
	recording = r.recording()
	flags.Var(&swept, "sweep", "")
	to = r.outputs()
	return c
}

func (r *request) runAndTell(name string, swept sweepFlag, asJSON bool, recording *recording, to *outputs) int {
	ctx := r.c.Context()
	if r.options.Replications < 0 || r.options.Workers < 0 {
		return r.wrongly("replications and workers are not negative")
	}
	r.options.Command = command(cli.Typed(r.c))
	if problem := recording.ready(&r.options, swept != ""); problem != "" {
		return r.wrongly(problem)
	}
	if swept != "" {
		return r.sweep(ctx, name, string(swept), asJSON, to)
	}
	report, code := r.run(ctx, name)
	if code >= 0 {
		return code
	}
	if err := errors.Join(recording.write(report, r.stderr), to.write(report, r.stderr), r.write(report, asJSON)); err != nil {
		return r.failed(err)
	}
	if report.Failed() {
		return cli.ExitFindings
	}
	return cli.ExitOK
}

// changesNothing are the flags with a value that what is run does not depend on.
var changesNothing = []string{"workers", "report", "markdown", "junit", "record", "record-of"}

// command is what reproduces a run: the words that were given, without those that
// change nothing.
func command(args []string) string {
	words := []string{"gabion", "lab", "run"}
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case strings.HasPrefix(args[i], "-") && slices.Contains(changesNothing, name):
			if !joined {
				i++
			}
		case strings.HasPrefix(args[i], "-") && name == "json":
		default:
			words = append(words, quote(args[i]))
		}
	}
	return strings.Join(words, " ")
}

// quote makes a shell take a word as one.
func quote(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:@") == "" && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// run reads what the command line names and runs it.
func (r *request) run(ctx context.Context, name string) (*lab.Report, int) {
	s, err := r.load(name)
	if err != nil {
		return nil, r.unknown(name, err)
	}
	if err := r.loadPolicies(); err != nil {
		return nil, r.failed(err)
	}
	r.progress()
	report, err := s.Run(ctx, r.options)
	switch {
	case errors.Is(err, lab.ErrNoOpponent):
		r.failed(err)
		return nil, cli.ExitUsage
	case err != nil:
		return nil, r.failed(err)
	}
	return report, -1
}

// progress redraws one line if stderr is a terminal.
func (r *request) progress() {
	f, ok := r.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	r.options.Progress = func(done, all int) {
		fmt.Fprintf(r.stderr, "\r%d of %d runs", done, all)
		if done == all {
			fmt.Fprint(r.stderr, "\r\x1b[K")
		}
	}
}

// unknown is the exit code for a scenario that can't be read.
func (r *request) unknown(name string, err error) int {
	if code := r.failed(err); code != cli.ExitFailure || name == "-" {
		return code
	}
	return cli.Unread(err)
}

// write prints the report.
func (r *request) write(report *lab.Report, asJSON bool) error {
	if asJSON {
		return report.WriteJSON(r.stdout)
	}
	width, color := 80, false
	if f, ok := r.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			width = w
		}
	}
	return report.Terminal(r.stdout, width, color)
}
