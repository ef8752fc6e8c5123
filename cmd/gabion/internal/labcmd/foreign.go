package labcmd

import (
	"fmt"
	"path/filepath"

	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/theirs"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
)

// open reads a file of gabion, or one of another system, which may be named FORMAT:FILE.
func (r *request) open(path string) (ours *config.File, foreign *lab.Foreign, err error) {
	reading, err := theirs.Seem(path)
	if reading == nil {
		if err == nil {
			ours, err = config.Load(path)
		}
		return ours, nil, err
	}
	foreign = &lab.Foreign{Name: reading.Format + " " + filepath.Base(reading.Sources[0].Name), Policies: map[string]policy.Policy{}, Repeats: map[string][]string{}}
	for i := range reading.Routes {
		of := &reading.Routes[i]
		foreign.Policies[of.Dependency] = of.Played()
		if of.Repeats != nil {
			foreign.Repeats[of.Dependency] = of.Repeats
		}
	}
	if len(foreign.Policies) == 0 {
		return nil, nil, fmt.Errorf("%s: no route, client or method has a policy", path)
	}
	fmt.Fprint(r.stderr, fold.Lines(theirs.Count(reading)))
	return nil, foreign, nil
}
