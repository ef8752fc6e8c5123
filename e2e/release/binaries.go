package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// target is a system and a processor that a binary is for.
type target struct{ system, processor string }

func (t target) String() string { return t.system + "/" + t.processor }

// program is the name of the command's file.
func (t target) program() string {
	if t.system == "windows" {
		return "gabion.exe"
	}
	return "gabion"
}

// targets are what a release has binaries for. A rehearsal builds those that differ most, because
// each takes a minute or more.
var (
	targets   = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}
	rehearsed = []target{{"linux", "amd64"}, {"windows", "arm64"}}
)

// parseTargets reads a list such as "linux/amd64,darwin/arm64".
func parseTargets(list string) (chosen []target, err error) {
	for _, word := range strings.Split(list, ",") {
		system, processor, ok := strings.Cut(word, "/")
		if !ok || system == "" || processor == "" {
			return nil, fmt.Errorf("%q is no target: name some like linux/amd64,darwin/arm64", word)
		}
		chosen = append(chosen, target{system, processor})
	}
	return chosen, nil
}

// build makes the command for a target below dir, and returns its path. It is what go install makes
// of the released module, without cgo and directories, so anybody can make the same bytes with the same Go.
func build(dir string, env []string, pkg, version string, t target) (string, error) {
	env = append(env, "GOOS="+t.system, "GOARCH="+t.processor, "CGO_ENABLED=0", "GOPATH="+dir, "GOBIN=", "GOENV=off")
	if _, err := command(".", env, "go", "install", "-trimpath", pkg+"@"+version); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bin")
	for _, name := range []string{filepath.Join(bin, t.system+"_"+t.processor, t.program()), filepath.Join(bin, t.program())} {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("go install of %s for %s left nothing in %s", pkg, t, bin)
}

// assets makes the files of a release that are downloaded.
type assets struct {
	proof
	out     string    // where the files go
	when    time.Time // of all files
	key     string    // a private key of ssh-keygen; empty makes one for this run
	signers string    // the file that says which keys sign releases; unused without a key
}

// all makes archives, packages and the formula for the targets, their sums and the signature, and checks
// them as a user would.
func (a assets) all(chosen []target) error {
	env, err := a.env()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(a.out); err != nil {
		return err
	}
	if err := os.MkdirAll(a.out, 0o755); err != nil {
		return err
	}
	fmt.Fprintf(a.proof.out, "== files for download, in %s\n", a.out)
	built := map[target]string{}
	host := target{runtime.GOOS, runtime.GOARCH}
	for _, t := range append([]target{host}, chosen...) {
		if built[t] != "" {
			continue
		}
		began := time.Now()
		if built[t], err = build(filepath.Join(a.dir, "for", t.system+"-"+t.processor), env, prefix+"/cmd/gabion", a.version, t); err != nil {
			return err
		}
		fmt.Fprintf(a.proof.out, "  %s (%.0f s)\n", t, time.Since(began).Seconds())
	}
	if err := a.again(env, host, built[host]); err != nil {
		return err
	}
	shared, err := a.shared(built[host])
	if err != nil {
		return err
	}
	for _, t := range chosen {
		if err := a.files(t, built[t], shared); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	if slices.Contains(chosen, host) && host.system == "linux" {
		if err := a.alone(host); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(a.src, "deploy", "Containerfile"), filepath.Join(a.out, "Containerfile")); err != nil {
		return err
	}
	if err := a.formula(chosen); err != nil {
		return err
	}
	if err := sum(a.out); err != nil {
		return err
	}
	return a.signed()
}

// again builds one binary in another folder: it must have the same bytes.
func (a assets) again(env []string, t target, first string) error {
	second, err := build(filepath.Join(a.dir, "elsewhere"), env, prefix+"/cmd/gabion", a.version, t)
	if err != nil {
		return err
	}
	return same(first, second)
}

// alone runs the program as a container has it: in a root with nothing but its archive.
func (a assets) alone(t target) error {
	root := filepath.Join(a.dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if _, err := command(a.dir, nil, "tar", "-xzf", filepath.Join(a.out, archiveName(t, a.version)), "-C", root); err != nil {
		return err
	}
	if _, refused := command(a.dir, nil, "unshare", "-r", "true"); refused != nil {
		fmt.Fprintln(a.proof.out, "  not run in a root of its own: unshare may not be used here")
		return nil //nolint:nilerr // where containers may not be made, no more can be shown
	}
	said, err := command(a.dir, nil, "unshare", "-r", "chroot", root, "/gabion", "version")
	if err != nil {
		return err
	}
	if !strings.Contains(said, a.version) {
		return fmt.Errorf("in a root of its own gabion says that it is %q", said)
	}
	fmt.Fprintln(a.proof.out, "  runs in a root that holds nothing but its archive")
	return nil
}

// same reports an error unless two files have the same bytes.
func same(first, second string) error {
	one, err := os.ReadFile(first)
	if err != nil {
		return err
	}
	two, err := os.ReadFile(second)
	if err != nil {
		return err
	}
	if string(one) != string(two) {
		return fmt.Errorf("%s and %s were built of the same source and differ", first, second)
	}
	return nil
}

// entry is a file in an archive or a package.
type entry struct {
	name string
	data []byte
	mode int64
}

// shared are the files that are the same for every target: the licence, README, the manual page and completions.
// The command writes the last two.
func (a assets) shared(host string) (files []entry, err error) {
	for _, name := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(filepath.Join(a.src, name))
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name, data, 0o644})
	}
	for _, made := range []struct{ name, args string }{
		{"gabion.1", "man"},
		{"completions/gabion.bash", "completion bash"},
		{"completions/gabion.fish", "completion fish"},
		{"completions/gabion.ps1", "completion powershell"},
		{"completions/_gabion", "completion zsh"},
	} {
		text, err := command(a.dir, nil, host, strings.Fields(made.args)...)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, errors.New("gabion " + made.args + " writes nothing")
		}
		files = append(files, entry{made.name, []byte(text + "\n"), 0o644})
	}
	return files, nil
}

// files writes a target's archive, and its package if it is Linux.
func (a assets) files(t target, program string, shared []entry) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	binary := entry{t.program(), data, 0o755}
	packed, err := archive(t, append([]entry{binary}, shared...), a.when)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(a.out, archiveName(t, a.version)), packed, 0o644); err != nil {
		return err
	}
	if t.system != "linux" {
		return nil
	}
	deb, err := debian(t, a.version, binary, shared, a.when)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.out, debName(t, a.version)), deb, 0o644)
}
