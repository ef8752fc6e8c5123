package tunecmd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab"
)

// propose makes the changes in the file's text, and returns the difference.
func (r *request) propose(changes []lab.TuneChange) (string, error) {
	dependency := r.options.Dependency
	if dependency == "" {
		dependency = r.tuned()
	}
	made := make([]policyfile.Change, len(changes))
	for i, c := range changes {
		made[i] = policyfile.Change{Dependency: dependency, Path: c.Path, Value: c.To}
	}
	r.edit, r.wrong = policyfile.Edit(r.config, r.text, made)
	if r.wrong != nil {
		return "", r.wrong
	}
	name := filepath.ToSlash(r.config)
	return string(diff.Diff("a/"+name, r.text, "b/"+name, r.edit)), nil
}

// tuned is the dependency that is tuned if none is named.
func (r *request) tuned() string {
	for _, name := range r.options.As {
		return name // there is one, or tuning was refused
	}
	return r.options.Config.Names()[0]
}

// replace writes the file anew, as a whole. Who reads it meanwhile sees all of the old text
// or all of the new one.
func (r *request) replace() error {
	if r.wrong != nil {
		return r.wrong
	}
	path, err := filepath.EvalSymlinks(r.config)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, r.text) {
		return errors.New("another program changed it during the search")
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(r.edit)
	if err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error before says more
	}
	return err
}
