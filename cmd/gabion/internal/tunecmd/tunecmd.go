// Package tunecmd is what gabion tune does: it searches the numbers of a policy in the lab.
package tunecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab"
)

const usage = `usage: gabion tune SCENARIO... --config FILE [--dependency NAME]
                   [--as NAME=DEPENDENCY] [--goal GOAL] [--vary KEY[=VALUES]]
                   [--time DURATION] [--runs N] [--seed N] [--workers N]
                   [--no-guard] [--write] [--json]

Searches the numbers of one dependency's policy in the lab, and compares the
best with the file as it is: with seeds, fault lengths and severities that the
search has not seen. Only what that comparison resolves is called better, and
only if it is worse in none of the scenarios that judge the defaults: worse than
the file and than the defaults. The defaults and the presets are always tried,
with the file's timeout.call; the search goes on from the best.
SCENARIO is a name that gabion lab list shows, or a file. Several are tuned for
together: a policy that is tuned for one fault may do worse in others.

  --config FILE      the file; it is not changed without --write
  --dependency NAME  whose policy; without it the one that --as names, or the
                     only one
  --as NAME=DEP      the scenario's policy NAME is the dependency DEP; '*=DEP'
                     makes all its policies be DEP, with the scenario's own
                     timeouts, key and safety. A scenario that has neither the
                     name nor an --as plays DEP in place of all its policies
  --goal GOAL        what is first, and what other numbers keep to. Usual is
                     "goodput first, amplification <= usual, recovery <=
                     usual": what the file or the defaults come to.
                     Others are "goodput first, amplification <= 1.2, recovery
                     <= 10s" and "p99 first, goodput >= now, load <= now+10%"
  --vary KEY=VALUES  vary this key; may be given several times. VALUES are
                     FROM..TO, or values with commas; without them they are the
                     usual ones. Without --vary: retry.attempts,
                     retry.backoff.base, retry.budget.ratio, timeout.attempt
                     and breaker.open
  --time DURATION    how long it may take, such as 2m; usual is 5m, 0 no bound
  --runs N           how many runs the search may make, besides those of the
                     defaults, the presets and the validation. If the time does
                     not end it, the same command gives the same answer
  --seed N           what all randomness of the search comes from
  --workers N        how many runs at once; it changes nothing but the time
  --no-guard         leave out the look at the scenarios that judge the defaults
  --write            change the file, if a better one was found
  --json             print one JSON object on stdout, and nothing else

Ctrl-C ends it with the best that is known, and claims nothing.

Exit codes: 0 a better file was found, 1 nothing is resolved, it is worse in
another scenario, or a file has mistakes, 2 called wrongly, 3 any other failure,
130 interrupted.
`

// request is what the command line asks for.
type request struct {
	stdout, stderr io.Writer

	config        string
	time          time.Duration
	write, asJSON bool
	options       lab.TuneOptions
	now           func() time.Time

	text  []byte // of the file, as it was read
	edit  []byte // with the changes
	wrong error  // why it can't be changed
}

// renames collects --as flags.
type renames map[string]string

func (r renames) String() string { return "" }

func (r renames) Type() string { return "NAME=DEP" }

func (r renames) Set(text string) error {
	name, dependency, ok := strings.Cut(text, "=")
	if !ok || name == "" || dependency == "" {
		return errors.New("write NAME=DEPENDENCY")
	}
	if _, twice := r[name]; twice {
		return fmt.Errorf("%s is there twice", name)
	}
	r[name] = dependency
	return nil
}

// Command is gabion tune.
func Command() *cobra.Command { return (&request{now: time.Now}).command() }

func (r *request) command() *cobra.Command {
	c := cli.Command("tune", "search a policy's numbers in the lab, and prove what is better", usage, r.main)
	flags := c.Flags()
	o := &r.options
	o.As = map[string]string{}
	flags.StringVar(&r.config, "config", "", "")
	flags.StringVar(&o.Dependency, "dependency", "", "")
	flags.Var(renames(o.As), "as", "")
	flags.StringVar(&o.Goal, "goal", "", "")
	flags.Func("vary", "", func(text string) error { o.Vary = append(o.Vary, text); return nil })
	flags.DurationVar(&r.time, "time", 5*time.Minute, "")
	flags.IntVar(&o.Runs, "runs", 0, "")
	flags.Uint64Var(&o.Seed, "seed", 0, "")
	flags.IntVar(&o.Workers, "workers", 0, "")
	flags.BoolVar(&o.NoGuard, "no-guard", false, "")
	flags.BoolVar(&r.write, "write", false, "")
	flags.BoolVar(&r.asJSON, "json", false, "")
	return c
}

func (r *request) main(c *cobra.Command, words []string) int {
	r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
	o := &r.options
	switch {
	case len(words) == 0:
		return r.wrongly("no scenario is named; gabion lab list shows them")
	case r.config == "":
		return r.wrongly("no file is named: write --config gabion.yaml")
	case r.time < 0 || o.Runs < 0 || o.Workers < 0:
		return r.wrongly("time, runs and workers are not negative")
	}
	o.Command = command(cli.Typed(c))
	if code := r.load(words); code >= 0 {
		return code
	}
	return r.tune(c.Context())
}

// wrongly says what is wrong with a command line, and then how it should look.
func (r *request) wrongly(problem string) int {
	fmt.Fprintf(r.stderr, "gabion tune: %s\n\n%s", problem, usage)
	return cli.ExitUsage
}

// load reads the file and the scenarios. A code of 0 or more ends the command.
func (r *request) load(scenarios []string) int {
	text, err := os.ReadFile(r.config)
	if err != nil {
		return r.failed(err)
	}
	r.text = text
	if r.options.Config, err = config.Parse(r.config, text); err != nil {
		return r.failed(err)
	}
	for _, name := range scenarios {
		s, err := lab.Load(name)
		if err != nil {
			return r.failed(err)
		}
		r.options.Scenarios = append(r.options.Scenarios, s)
	}
	return -1
}

// failed says what went wrong.
func (r *request) failed(err error) int {
	var mistakes lab.Findings
	var wrong config.Findings
	var goal *lab.GoalError
	var key *policyfile.SetError
	var path *fs.PathError
	switch {
	case errors.As(err, &mistakes), errors.As(err, &wrong):
		fmt.Fprintln(r.stderr, err)
		return cli.ExitFindings
	case errors.As(err, &goal):
		fmt.Fprintln(r.stderr, err)
		return cli.ExitUsage
	case errors.As(err, &key):
		fmt.Fprintf(r.stderr, "gabion tune: %v\n", err)
		return cli.ExitUsage
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(r.stderr, "gabion tune: interrupted before anything was known")
		return cli.ExitInterrupted
	}
	fmt.Fprintf(r.stderr, "gabion tune: %s\n", strings.TrimPrefix(err.Error(), "lab: "))
	if errors.As(err, &path) {
		return cli.ExitFailure
	}
	return cli.ExitUsage // all else is about what was asked for
}

func (r *request) tune(ctx context.Context) int {
	begin := r.now()
	if r.time > 0 {
		r.options.Used = func() float64 { return float64(r.now().Sub(begin)) / float64(r.time) }
	}
	shown := newProgress(r.stderr, r.now)
	r.options.Progress = shown.tell
	r.options.Propose = r.propose
	t, err := lab.Tune(ctx, r.options)
	shown.end()
	if err != nil {
		return r.failed(err)
	}
	show := t.Terminal
	if r.asJSON {
		show = t.WriteJSON
	}
	if err := show(r.stdout); err != nil {
		fmt.Fprintf(r.stderr, "gabion tune: %v\n", err)
		return cli.ExitFailure
	}
	switch {
	case t.Interrupted():
		return cli.ExitInterrupted
	case !t.Won():
		if r.write {
			fmt.Fprintf(r.stderr, "gabion tune: %s is not changed\n", r.config)
		}
		return cli.ExitFindings
	case r.write:
		if err := r.replace(); err != nil {
			fmt.Fprintf(r.stderr, "gabion tune: %s is not changed: %v\n", r.config, err)
			return cli.ExitFailure
		}
		fmt.Fprintf(r.stderr, "written to %s\n", r.config)
	}
	return cli.ExitOK
}

// command is what reproduces a result: the words that were given, without those that change
// nothing of it.
func command(args []string) string {
	words := []string{"gabion", "tune"}
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		flag := strings.HasPrefix(args[i], "-")
		switch {
		case flag && name == "workers":
			if !joined {
				i++
			}
		case flag && slices.Contains([]string{"json", "write"}, name):
		default:
			words = append(words, quote(args[i]))
		}
	}
	return strings.Join(words, " ")
}

// quote makes a shell take a word as one.
func quote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
