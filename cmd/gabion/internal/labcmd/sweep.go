package labcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab"
)

// sweepFlag is the value of --sweep, which is given once.
type sweepFlag string

func (s *sweepFlag) String() string { return string(*s) }

func (s *sweepFlag) Type() string { return "KEY=VALUES" }

func (s *sweepFlag) Set(text string) error {
	if *s != "" {
		return errors.New("is there twice, and one key at a time is swept")
	}
	*s = sweepFlag(text)
	return nil
}

// sweep runs a scenario with one value after another.
func (r *request) sweep(ctx context.Context, name, what string, asJSON bool, to *outputs) int {
	if r.against != "" || len(r.againstAs) > 0 || r.options.Map || to.page != "" || to.junit != "" {
		return r.wrongly("--sweep compares values with each other: leave out --against, --against-as, --map, --report and --junit")
	}
	s, err := r.load(name)
	if err != nil {
		return r.unknown(name, err)
	}
	if err := r.loadPolicies(); err != nil {
		return r.failed(err)
	}
	r.progress()
	made, err := s.Sweep(ctx, r.options, what)
	var wrong *policyfile.SetError
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintf(r.stderr, "%s: --sweep: %v\n", r.c.CommandPath(), wrong)
		return cli.ExitUsage
	case err != nil:
		return r.failed(err)
	}
	if err := writeSweep(r, made, asJSON, to); err != nil {
		return r.failed(err)
	}
	return cli.ExitOK
}

func writeSweep(r *request, made *lab.Sweep, asJSON bool, to *outputs) error {
	if to.markdown != "" {
		if err := WriteFile(to.markdown, made.Markdown); err != nil {
			return err
		}
	}
	if asJSON {
		return made.WriteJSON(r.stdout)
	}
	return made.Terminal(r.stdout)
}
