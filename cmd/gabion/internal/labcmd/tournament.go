package labcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab"
)

// TournamentUsage is the help of gabion lab tournament.
const TournamentUsage = `usage: gabion lab tournament [--config FILE] [--quick|--full] [--seeds WHICH]
                             [--against NAME,...] [--scenario NAME,...]
                             [--replications N] [--workers N]
                             [--report FILE.html] [--markdown FILE.md]

Plays gabion's defaults against the policies of others, in the scenarios of the
library and in variants of them, all with the same random numbers. Says who is
better at what, where the defaults lose, and the command that shows each loss.

  --config FILE      judge each dependency of this file, with the timeouts, keys
                     and safety of each scenario
  --quick            a choice of opponents and scenarios, in two minutes: usual
  --full             all of them, in half an hour
  --seeds WHICH      default, validation (nothing was tuned on it) or a number
  --against NAMES    play these opponents (gabion lab opponents shows them)
  --scenario NAMES   play these scenarios (gabion lab list --families)
  --replications N   how many runs of each
  --workers N        how many runs at once; it changes nothing but the time
  --report FILE      write all of it as one HTML page
  --markdown FILE    write the tables and all losses as Markdown
`

// RunTournament is gabion lab tournament: it plays one.
func RunTournament() *cobra.Command {
	r := newRequest()
	p := &tournament{request: r}
	c := r.command("tournament", "play the defaults against others, and say who is better at what", TournamentUsage, 0, func([]string) int { return p.play() })
	flags := c.Flags()
	flags.StringVar(&r.config, "config", "", "")
	flags.BoolVar(&p.quick, "quick", false, "")
	flags.BoolVar(&p.options.Full, "full", false, "")
	flags.StringVar(&p.seeds, "seeds", "default", "")
	flags.StringVar(&p.against, "against", "", "")
	flags.StringVar(&p.scenarios, "scenario", "", "")
	flags.IntVar(&p.options.Replications, "replications", 0, "")
	flags.IntVar(&p.options.Workers, "workers", 0, "")
	flags.StringVar(&p.page, "report", "", "")
	flags.StringVar(&p.text, "markdown", "", "")
	return c
}

// tournament is what the command line asks for.
type tournament struct {
	*request
	options                               lab.TournamentOptions
	quick                                 bool
	seeds, against, scenarios, page, text string
}

func (r *tournament) play() int {
	ctx, o := r.c.Context(), r.options
	var err error
	if o.Seed, err = seedOf(r.seeds); err != nil {
		return r.wrongly(err.Error())
	}
	if r.quick && o.Full || o.Replications < 0 || o.Workers < 0 {
		return r.wrongly("quick and full exclude each other, and replications and workers are not negative")
	}
	o.Against, o.Scenarios = listed(r.against), listed(r.scenarios)
	if r.config != "" {
		if o.Config, err = config.Load(r.config); err != nil {
			return r.failed(err)
		}
	}
	o.Progress = r.workDone()
	t, err := lab.RunTournament(ctx, o)
	switch {
	case errors.Is(err, lab.ErrNoOpponent):
		r.failed(err)
		return cli.ExitUsage
	case err != nil:
		return r.failed(err)
	}
	if err := r.writeTournament(t, r.page, r.text); err != nil {
		return r.failed(err)
	}
	return cli.ExitOK
}

// seedOf reads --seeds.
func seedOf(text string) (uint64, error) {
	switch text {
	case "default":
		return 0, nil
	case "validation":
		return lab.ValidationSeed, nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seed == 0 {
		return 0, fmt.Errorf("--seeds %.40q is not known: write default, validation, or a number above 0", text)
	}
	return seed, nil
}

// listed returns the words of a list, nil for an empty text.
func listed(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// workDone says how much is done and how long the rest will take: on a terminal always,
// elsewhere at each tenth.
func (r *request) workDone() func(done, all float64) {
	f, ok := r.stderr.(*os.File)
	if !ok {
		return nil
	}
	begin, tenth := time.Now(), 0
	says := func(done, all float64) string {
		left := time.Duration(float64(time.Since(begin)) * (all - done) / done).Round(time.Second)
		return fmt.Sprintf("%.0f of %.0f million calls, about %v left", done/1e6, all/1e6, left)
	}
	if !term.IsTerminal(int(f.Fd())) {
		return func(done, all float64) {
			if now := int(10 * done / all); now > tenth && now < 10 {
				tenth = now
				fmt.Fprintln(r.stderr, says(done, all))
			}
		}
	}
	return func(done, all float64) {
		if done >= all {
			fmt.Fprint(r.stderr, "\r\x1b[K")
			return
		}
		fmt.Fprintf(r.stderr, "\r\x1b[K%s", says(done, all))
	}
}

// writeTournament writes it where it was asked for.
func (r *request) writeTournament(t *lab.Tournament, page, text string) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{page, t.HTML}, {text, t.Markdown}} {
		if f.name == "" {
			continue
		}
		if err := WriteFile(f.name, f.write); err != nil {
			return err
		}
		fmt.Fprintf(r.stderr, "written to %s\n", f.name)
	}
	color := false
	if f, ok := r.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t.Terminal(r.stdout, color)
}
