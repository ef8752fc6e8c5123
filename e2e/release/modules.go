package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	mod "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// prefix is the path of the root module, with which all others begin.
const prefix = "github.com/gabion-go/gabion"

// module is one that is released.
type module struct {
	dir  string // in the repository; "." is the root
	path string
	file *modfile.File
}

func (m module) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// released reports whether a module is for users: tests, examples and this program
// are not.
func released(dir string) bool {
	for _, folder := range []string{"e2e", "examples", "internal"} {
		if dir == folder || strings.HasPrefix(dir, folder+"/") {
			return false
		}
	}
	return true
}

// readModules reads the modules of go.work that are released, those first that
// others require.
func readModules(src string) ([]module, error) {
	data, err := os.ReadFile(filepath.Join(src, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return nil, err
	}
	var modules []module
	for _, use := range work.Use {
		dir := path.Clean(use.Path)
		if !released(dir) {
			continue
		}
		name := filepath.Join(src, dir, "go.mod")
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, data, nil)
		if err != nil {
			return nil, err
		}
		modules = append(modules, module{dir, file.Module.Mod.Path, file})
	}
	return inOrder(modules)
}

// own reports whether a path is one of the repository's modules.
func own(name string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }

// inOrder puts each module after those that it requires.
func inOrder(modules []module) (ordered []module, err error) {
	done := map[string]bool{}
	for len(ordered) < len(modules) {
		before := len(ordered)
		for _, m := range modules {
			if !done[m.path] && !slices.ContainsFunc(m.file.Require, func(r *modfile.Require) bool { return own(r.Mod.Path) && !done[r.Mod.Path] }) {
				ordered, done[m.path] = append(ordered, m), true
			}
		}
		if len(ordered) == before {
			return nil, fmt.Errorf("of %d modules, some require each other or one that is not released", len(modules))
		}
	}
	return ordered, nil
}

// rewrite makes each module require the others at the version, packs it as a proxy
// serves it, and notes its sums in the modules that require it.
func rewrite(src, proxy string, modules []module, version string, out io.Writer) error {
	sums := map[string][]string{} // by module, the lines for go.sum
	for _, m := range modules {
		dir := filepath.Join(src, m.dir)
		required, err := m.name(version)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), modfile.Format(m.file.Syntax), 0o644); err != nil {
			return err
		}
		var lines []string
		for _, r := range required {
			lines = append(lines, sums[r]...)
		}
		if err := addSums(filepath.Join(dir, "go.sum"), lines); err != nil {
			return err
		}
		if sums[m.path], err = pack(proxy, dir, mod.Version{Path: m.path, Version: version}); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		fmt.Fprintf(out, "  %s\n", m.tag(version))
	}
	return nil
}

// name writes the version into a module's requirements, and drops what replaces them.
// It returns the modules of the repository that this one requires.
func (m module) name(version string) (required []string, err error) {
	for _, r := range m.file.Require {
		if own(r.Mod.Path) {
			required = append(required, r.Mod.Path)
		}
	}
	for _, r := range required {
		if err := m.file.AddRequire(r, version); err != nil {
			return nil, err
		}
	}
	for _, r := range slices.Clone(m.file.Replace) {
		if !own(r.Old.Path) {
			return nil, fmt.Errorf("%s replaces %s, which users of it would not get", m.path, r.Old.Path)
		}
		if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	m.file.Cleanup()
	return required, nil
}

func addSums(name string, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	old, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	all := append(strings.Split(strings.TrimSpace(string(old)), "\n"), lines...)
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(l string) bool { return l == "" })
	return os.WriteFile(name, []byte(strings.Join(all, "\n")+"\n"), 0o644)
}

// pack writes the files of one version as a proxy has them, and returns its lines for
// go.sum.
func pack(proxy, dir string, v mod.Version) (sums []string, err error) {
	escaped, err := mod.EscapePath(v.Path)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(proxy, escaped, "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	at := func(ext string) string { return filepath.Join(folder, v.Version+ext) }
	gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{v.Version, time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{at(".mod"): gomod, at(".info"): info, filepath.Join(folder, "list"): []byte(v.Version + "\n")} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return nil, err
		}
	}
	f, err := os.Create(at(".zip"))
	if err != nil {
		return nil, err
	}
	if err := zip.CreateFromDir(f, v, dir); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	whole, err := dirhash.HashZip(at(".zip"), dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	alone, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(at(".mod")) })
	if err != nil {
		return nil, err
	}
	return []string{v.Path + " " + v.Version + " " + whole, v.Path + " " + v.Version + "/go.mod " + alone}, nil
}
