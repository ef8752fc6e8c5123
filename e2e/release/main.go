// Command release makes a version of all modules in a copy of the repository, and
// proves with a module proxy in a folder that it can be used. It pushes nothing.
//
// Each module requires the others at a version that does not exist, and replaces it
// by a folder, so that a checkout builds as it is. A release commit, which is not on
// the main branch, names the version and drops the replacements; every module is
// tagged on it, those first that others require.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "the version, such as v0.3.0")
	dry := flag.Bool("dry", false, "take the working tree as it is, and keep no tags")
	key := flag.String("key", "", "the private key, of ssh-keygen, that signs the sums; without it a dry run makes its own")
	list := flag.String("targets", "", "systems and processors to build for, such as linux/amd64,darwin/arm64 (all; in a dry run two)")
	flag.Parse()
	if err := release(*version, *dry, *key, *list, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// form is what tags may be: version 0 and 1 need no suffix in module paths.
var form = regexp.MustCompile(`^v[01]\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func release(version string, dry bool, key, list string, out io.Writer) error {
	chosen, err := choose(dry, key, list)
	if err != nil {
		return err
	}
	if !form.MatchString(version) {
		return fmt.Errorf("%q is no version: make release VERSION=v0.3.0", version)
	}
	root, err := git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if !dry {
		if err := ready(root, version); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp("", "gabion-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	src := filepath.Join(tmp, "src")
	if err := copyTree(root, src, dry); err != nil {
		return err
	}
	fmt.Fprintln(out, "== the playground's program for browsers")
	if err := playground(src); err != nil {
		return err
	}
	modules, err := readModules(src)
	if err != nil {
		return err
	}
	proxy := filepath.Join(tmp, "proxy")
	fmt.Fprintf(out, "== %d modules become %s\n", len(modules), version)
	if err := rewrite(src, proxy, modules, version, out); err != nil {
		return err
	}
	tags, err := tag(src, modules, version)
	if err != nil {
		return err
	}
	p := proof{dir: tmp, src: src, proxy: proxy, version: version, out: out}
	if err := p.all(modules); err != nil {
		return err
	}
	when, err := git(root, "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	a := assets{proof: p, out: filepath.Join(root, "bin", "release", version), key: key, signers: filepath.Join(root, "deploy", "release-signers")}
	if a.when, err = time.Parse(time.RFC3339, when); err != nil {
		return err
	}
	if err := a.all(chosen); err != nil {
		return err
	}
	return finish(root, src, tags, dry, out)
}

// choose says what is built for download. A release that is not dry needs a key and has all targets.
func choose(dry bool, key, list string) ([]target, error) {
	switch {
	case !dry && key == "":
		return nil, errors.New("a release is signed: make release VERSION=... KEY=FILE, a private key whose public half is in deploy/release-signers")
	case !dry && list != "":
		return nil, errors.New("a release has all targets: -targets is for a dry run")
	case list != "":
		return parseTargets(list)
	case dry:
		return rehearsed, nil
	default:
		return targets, nil
	}
}

// ready reports what has to be done before a release.
func ready(root, version string) error {
	status, err := git(root, "status", "--porcelain")
	if err != nil {
		return err
	}
	var problems []error
	if status != "" {
		problems = append(problems, fmt.Errorf("the tree is not clean:\n%s", status))
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !regexp.MustCompile(`(?m)^## \[?` + regexp.QuoteMeta(version) + `\b`).Match(changes) {
		problems = append(problems, fmt.Errorf("CHANGELOG.md has no heading ## %s", version))
	}
	if tag, err := git(root, "tag", "--list", version); err != nil {
		problems = append(problems, err)
	} else if tag != "" {
		problems = append(problems, fmt.Errorf("the tag %s is there already", version))
	}
	return errors.Join(problems...)
}

// copyTree clones the repository. A dry run takes along what is not committed.
func copyTree(root, dst string, dry bool) error {
	if _, err := git(root, "clone", "--quiet", "--no-hardlinks", root, dst); err != nil || !dry {
		return err
	}
	gone, err := git(root, "ls-files", "-z", "--deleted")
	if err != nil {
		return err
	}
	for _, name := range fields(gone) {
		if err := os.Remove(filepath.Join(dst, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	changed, err := git(root, "ls-files", "-z", "--modified", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for _, name := range fields(changed) {
		if err := copyFile(filepath.Join(root, name), filepath.Join(dst, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == 0 })
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// playground puts the page's program into the module of the command, which embeds it. A checkout has
// none: it would change with every commit.
func playground(src string) error {
	_, err := command(filepath.Join(src, "cmd", "gabion"), []string{"GOWORK=off"}, "go", "run", "./internal/playcmd/build", "internal/playcmd/built")
	return err
}

// tag commits the rewritten files and tags each module, in order.
func tag(src string, modules []module, version string) (tags []string, err error) {
	if _, err := git(src, "add", "-A"); err != nil {
		return nil, err
	}
	if _, err := git(src, "-c", "user.name=gabion release", "-c", "user.email=release@gabion.invalid", "commit", "--quiet", "--allow-empty",
		"-m", "release: "+version, "-m", "Requirements name the version; nothing is replaced."); err != nil {
		return nil, err
	}
	for _, m := range modules {
		name := m.tag(version)
		if _, err := git(src, "tag", name); err != nil {
			return nil, err
		}
		tags = append(tags, name)
	}
	return tags, nil
}

// finish says what is left to do. Only a run that is not dry keeps the tags, and
// nothing is pushed.
func finish(root, src string, tags []string, dry bool, out io.Writer) error {
	push := "git push origin " + strings.Join(tags, " ")
	if dry {
		fmt.Fprintf(out, "PASS: release, dry: nothing was tagged here. It would be:\n  %s\n", push)
		return nil
	}
	refs := make([]string, len(tags))
	for i, t := range tags {
		refs[i] = "refs/tags/" + t + ":refs/tags/" + t
	}
	if _, err := git(root, append([]string{"fetch", "--quiet", src}, refs...)...); err != nil {
		return err
	}
	fmt.Fprintf(out, "PASS: release: %d tags are in this repository. Nothing was pushed; that is yours to do:\n  %s\n", len(tags), push)
	return nil
}

func git(dir string, args ...string) (string, error) {
	return command(dir, nil, "git", args...)
}

// command runs a program and returns what it wrote, without the last newline.
func command(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if env != nil {
		cmd.Env = append(os.Environ(), env...)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &stderr, &stdout)
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}
