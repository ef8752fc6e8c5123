// Package lab plays an outage with a library that does not run here and with a policy. Its
// tests run without the race detector, as those of gabion's own lab do.
package lab

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/config"
	world "github.com/gabion-go/gabion/lab"
)

//go:embed outage.yaml
var outage string

// Played compares a library that does not run here with a policy, in the lab: a library
// is there as the closest policy of its documented defaults (gabion lab opponents).
func Played(ctx context.Context, library string, file *config.File, share string) (theirs, ours string, err error) {
	s, err := world.Parse("outage.yaml", []byte(strings.ReplaceAll(outage, "SHARE", share)))
	if err != nil {
		return "", "", err
	}
	report, err := s.Run(ctx, world.Options{
		Config: file, As: map[string]string{"*": "shop"}, Rival: library, Replications: 3, Workers: 1,
	})
	if err != nil {
		return "", "", err
	}
	if ours, err = figures(report, 0); err == nil {
		theirs, err = figures(report, 1)
	}
	return theirs, ours, err
}

func figures(r *world.Report, side int) (string, error) {
	answered, _, err := r.Metric(side, "goodput", "", "during")
	if err != nil {
		return "", err
	}
	load, _, err := r.Metric(side, "amplification", "shop", "during")
	if err != nil {
		return "", err
	}
	recovery, _, err := r.Metric(side, "recovery", "", "")
	return fmt.Sprintf("%.0f %% answered in time, %.1f attempts a call, back within %.0f s", 100*answered.Value, load.Value, recovery.Value), err
}
