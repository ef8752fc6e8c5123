package explaincmd

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// rules are the settings of the policy behind a call, as far as they are known.
type rules struct {
	settings map[string]policy.Setting // by path; nil where no file is known
	notes    []string                  // what is to be said of them
}

// rulesOf reads the policy of an entry's dependency: of the file that the caller named, of
// the recording itself, or of the file that the recording names. Only the first must be
// there and without mistakes.
func rulesOf(named string, e *recording.Entry) (*rules, error) {
	path := named
	if path == "" && e.Origin != nil && len(e.Origin.Settings) > 0 {
		r := &rules{settings: map[string]policy.Setting{}}
		for _, s := range e.Origin.Settings {
			r.settings[s.Path] = s
		}
		return r, nil
	}
	if path == "" && e.Header != nil {
		path = e.Header.PolicyFile
	}
	if path == "" {
		return &rules{notes: []string{"values and lines of the settings are not known: name the policy in force, --policy gabion.yaml"}}, nil
	}
	file, err := config.Load(path)
	switch {
	case err != nil && named != "":
		return nil, err
	case err != nil:
		return unread(path, err), nil
	}
	r := &rules{settings: map[string]policy.Setting{}}
	name := nameIn(file, e.Event.Dependency)
	for _, s := range file.Explain(name) {
		r.settings[s.Path] = s
	}
	switch p, ok := file.Policies[name]; {
	case !ok:
		r.notes = append(r.notes, fmt.Sprintf("%s has no dependency %q; it has %s", path, e.Event.Dependency, strings.Join(file.Names(), ", ")))
	case e.Origin == nil || e.Origin.Policy == "":
		r.notes = append(r.notes, fmt.Sprintf("the recording does not say which policy was in force: values and lines are those of %s now", path))
	case e.Origin.Policy != record.PolicyHash(p):
		r.notes = append(r.notes, fmt.Sprintf("another policy was in force then: values and lines are those of %s now", path))
	}
	return r, nil
}

// unread are the rules where the file that a recording names can't be read: it may be
// another machine's.
func unread(path string, err error) *rules {
	note := fmt.Sprintf("the recording's %s can't be read: gabion config check says why", path)
	if errors.Is(err, fs.ErrNotExist) {
		note = fmt.Sprintf("the recording's %s is not here: name the policy in force, --policy FILE", path)
	}
	return &rules{notes: []string{note}}
}

// nameIn is the name of a dependency in a file. An instance, as bank/eu, goes by the
// policy of bank.
func nameIn(file *config.File, dependency string) string {
	declared, _, instance := strings.Cut(dependency, "/")
	if _, own := file.Policies[dependency]; !own && instance {
		return declared
	}
	return dependency
}

// ruled is the setting behind a decision. Its keys are part of the JSON's version.
type ruled struct {
	Path   string `json:"path"`
	Value  string `json:"value,omitempty"`  // as the file spells it; empty where it is not known
	Source string `json:"source,omitempty"` // its line, "default", or empty where it is not known
}

// of is what is known of a setting, or nil for no setting. A section that is off is one
// setting.
func (r *rules) of(path string) *ruled {
	if path == "" {
		return nil
	}
	for at := path; ; {
		if s, ok := r.settings[at]; ok {
			return &ruled{at, s.Value, s.Source}
		}
		dot := strings.LastIndexByte(at, '.')
		if dot < 0 {
			return &ruled{Path: path}
		}
		at = at[:dot]
	}
}

func (s *ruled) String() string {
	if s.Source == "" {
		return s.Path
	}
	return fmt.Sprintf("%s: %s (%s)", s.Path, s.Value, s.Source)
}
