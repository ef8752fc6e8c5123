package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
)

var (
	when   = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	shared = []entry{
		{"LICENSE", []byte("licence\n"), 0o644}, {"README.md", []byte("# gabion\n"), 0o644}, {"gabion.1", []byte(".TH gabion 1\n"), 0o644},
		{"completions/gabion.bash", []byte("# bash\n"), 0o644}, {"completions/gabion.fish", []byte("# fish\n"), 0o644},
		{"completions/gabion.ps1", []byte("# ps\n"), 0o644}, {"completions/_gabion", []byte("#compdef gabion\n"), 0o644},
	}
	amd64 = target{"linux", "amd64"}
)

// tool finds a program, or skips the test; where tests must not be skipped, it fails.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testservers.Missing(t, "%s is not installed", name)
	}
	return path
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := command(dir, nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Two caches and two folders: nothing of either may be in the binary.
func TestABinaryIsTheSameWhereverItIsBuilt(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the runtime twice")
	}
	src, proxy := t.TempDir(), t.TempDir()
	write(t, src, house)
	modules, err := readModules(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := rewrite(src, proxy, modules, "v0.3.0", io.Discard); err != nil {
		t.Fatal(err)
	}
	var made []string
	for range 2 {
		p := proof{dir: t.TempDir(), proxy: proxy, version: "v0.3.0", out: io.Discard}
		env, err := p.env()
		if err != nil {
			t.Fatal(err)
		}
		program, err := build(filepath.Join(p.dir, "for"), append(env, "GOCACHE="+t.TempDir()), prefix+"/cmd/gabion", "v0.3.0", target{runtime.GOOS, runtime.GOARCH})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, program)
	}
	if err := same(made[0], made[1]); err != nil {
		t.Error(err)
	}
	said := run(t, ".", "go", "version", "-m", made[0])
	for _, want := range []string{"v0.3.0", "CGO_ENABLED=0", "-trimpath=true"} {
		if !strings.Contains(said, want) {
			t.Errorf("go version -m does not say %q:\n%s", want, said)
		}
	}
}

func TestFilesThatDifferAreNotTheSame(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "one", "b": "two"})
	if err := same(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err == nil || !strings.Contains(err.Error(), "differ") {
		t.Errorf("%v", err)
	}
}

func TestAnArchiveHoldsTheProgramAndWhatBelongsToIt(t *testing.T) {
	for _, system := range []target{amd64, {"windows", "arm64"}} {
		files := append([]entry{{system.program(), []byte("program"), 0o755}}, shared...)
		first, err := archive(system, files, when)
		if err != nil {
			t.Fatal(err)
		}
		if second, _ := archive(system, files, when); !bytes.Equal(first, second) {
			t.Errorf("%s: the same files made other bytes", system)
		}
		var names []string
		if system.system == "windows" {
			r, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.File {
				names = append(names, f.Name)
				if !f.Modified.Equal(when) {
					t.Errorf("%s is of %s", f.Name, f.Modified)
				}
			}
		} else {
			z, err := gzip.NewReader(bytes.NewReader(first))
			if err != nil {
				t.Fatal(err)
			}
			for r := tar.NewReader(z); ; {
				h, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if !h.ModTime.Equal(when) || h.Uid != 0 {
					t.Errorf("%s is of %s and user %d", h.Name, h.ModTime, h.Uid)
				}
				if h.Name == "gabion" && h.Mode != 0o755 {
					t.Errorf("the program has mode %o", h.Mode)
				}
				if h.Typeflag == tar.TypeReg {
					names = append(names, h.Name)
				}
			}
		}
		for _, f := range files {
			if !slices.Contains(names, f.name) {
				t.Errorf("%s: %s is not in the archive: %v", system, f.name, names)
			}
		}
	}
}

func TestADebianPackageIsInstalledIntoAnEmptyRoot(t *testing.T) {
	dpkg := tool(t, "dpkg-deb")
	dir := t.TempDir()
	program := entry{"gabion", []byte("#!/bin/sh\necho gabion v0.3.0-rc.1\n"), 0o755}
	deb, err := debian(amd64, "v0.3.0-rc.1", program, shared, when)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := debian(amd64, "v0.3.0-rc.1", program, shared, when); !bytes.Equal(deb, again) {
		t.Error("the same files made other bytes")
	}
	name := filepath.Join(dir, debName(amd64, "v0.3.0-rc.1"))
	if err := os.WriteFile(name, deb, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(t, dir, dpkg, "--field", name, "Package", "Version", "Architecture"); got != "Package: gabion\nVersion: 0.3.0~rc.1\nArchitecture: amd64" {
		t.Errorf("fields:\n%s", got)
	}
	root := filepath.Join(dir, "root")
	run(t, dir, dpkg, "-x", name, root)
	if got := run(t, dir, filepath.Join(root, "usr/bin/gabion"), "version"); got != "gabion v0.3.0-rc.1" {
		t.Errorf("it says %q", got)
	}
	for _, place := range places {
		if _, err := os.Stat(filepath.Join(root, place)); err != nil {
			t.Error(err)
		}
	}
	run(t, dir, dpkg, "-e", name, filepath.Join(dir, "control"))
	run(t, root, "md5sum", "-c", "--quiet", filepath.Join(dir, "control", "md5sums"))
	if os.Geteuid() != 0 || runtime.GOARCH != "amd64" {
		return
	}
	// dpkg installs for root alone.
	other := filepath.Join(dir, "installed")
	write(t, other, map[string]string{"var/lib/dpkg/status": "", "var/lib/dpkg/info/format": "1\n", "var/lib/dpkg/updates/.keep": ""})
	if err := os.Remove(filepath.Join(other, "var/lib/dpkg/updates/.keep")); err != nil {
		t.Fatal(err)
	}
	run(t, dir, tool(t, "dpkg"), "--root="+other, "--log=/dev/null", "--install", name)
	if got := run(t, dir, "dpkg-query", "--admindir="+filepath.Join(other, "var/lib/dpkg"), "-W", "gabion"); got != "gabion\t0.3.0~rc.1" {
		t.Errorf("dpkg-query says %q", got)
	}
}

func TestTheContainerfileTakesWhatAReleaseHas(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	added := regexp.MustCompile(`(?m)^ADD (\S+) /$`).FindStringSubmatch(string(text))
	entrypoint := regexp.MustCompile(`(?m)^ENTRYPOINT \["/(.*)"\]$`).FindStringSubmatch(string(text))
	if added == nil || entrypoint == nil || !strings.Contains(string(text), "\nFROM scratch\n") {
		t.Fatalf("no ADD, no ENTRYPOINT or another FROM:\n%s", text)
	}
	for _, x := range targets {
		if x.system != "linux" {
			continue
		}
		if got := strings.NewReplacer("${VERSION}", "0.3.0", "${TARGETARCH}", x.processor).Replace(added[1]); got != archiveName(x, "v0.3.0") {
			t.Errorf("it takes %s, the archive is %s", got, archiveName(x, "v0.3.0"))
		}
		if entrypoint[1] != x.program() {
			t.Errorf("it runs %s, the program is %s", entrypoint[1], x.program())
		}
	}
}

// page is what users are told to do.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestASignatureIsVerifiedAsThePageSays(t *testing.T) {
	tool(t, "ssh-keygen")
	dir, keys := t.TempDir(), t.TempDir()
	key, signers := filepath.Join(keys, "key"), filepath.Join(keys, "signers")
	if err := throwaway(key, signers); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"gabion_0.3.0_linux_amd64.tar.gz": "archive"})
	if err := sum(dir); err != nil {
		t.Fatal(err)
	}
	src := t.TempDir()
	write(t, src, map[string]string{"docs/install.md": page(t)})
	a := assets{proof: proof{dir: keys, src: src, out: io.Discard}, out: dir, key: key, signers: signers}
	if err := a.signed(); err != nil {
		t.Fatal(err)
	}
	if err := verify(page(t), dir, signers); err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(t.TempDir(), "key")
	if err := throwaway(stranger, stranger+".signers"); err != nil {
		t.Fatal(err)
	}
	if err := verify(page(t), dir, stranger+".signers"); err == nil {
		t.Error("a key that is not on the list was accepted")
	}
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"gabion_0.3.0_linux_amd64.tar.gz": "another archive"})
	if err := verify(page(t), dir, signers); err == nil {
		t.Error("an archive with another sum was accepted")
	}
	write(t, dir, map[string]string{"gabion_0.3.0_linux_amd64.tar.gz": "archive", sumsFile: string(sums) + "\n"})
	if err := verify(page(t), dir, signers); err == nil {
		t.Error("sums that were changed after they were signed were accepted")
	}
}

func TestTheFormulaNamesEachArchiveAndItsSum(t *testing.T) {
	a := assets{proof: proof{version: "v0.3.0"}, out: t.TempDir()}
	for _, x := range targets {
		write(t, a.out, map[string]string{archiveName(x, "v0.3.0"): x.String()})
	}
	if err := a.formula(targets); err != nil {
		t.Fatal(err)
	}
	if err := sum(a.out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(a.out, "gabion.rb"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(a.out, sumsFile))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`if (\S+) && (\S+)\n\s+url "https://github.com/gabion-go/gabion/releases/download/v0\.3\.0/(\S+)"\n\s+sha256 "([0-9a-f]{64})"`).FindAllStringSubmatch(string(text), -1)
	if len(found) != 4 {
		t.Fatalf("%d archives, want 4:\n%s", len(found), text)
	}
	for _, f := range found {
		if !strings.Contains(string(sums), f[4]+"  "+f[3]+"\n") {
			t.Errorf("%s has another sum in %s", f[3], sumsFile)
		}
		if strings.Contains(f[3], "darwin") != (f[1] == "OS.mac?") || strings.Contains(f[3], "arm64") != (f[2] == "Hardware::CPU.arm?") {
			t.Errorf("%s is for %s on %s", f[3], f[1], f[2])
		}
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		run(t, a.out, ruby, "-c", "gabion.rb")
	}
}

func TestWhatARunBuilds(t *testing.T) {
	for _, c := range []struct {
		fact      string
		dry       bool
		key, list string
		want      int
		err       string
	}{
		{"a rehearsal", true, "", "", 2, ""},
		{"a rehearsal of one target", true, "", "darwin/arm64", 1, ""},
		{"a release", false, "key", "", 6, ""},
		{"a release without a key", false, "", "", 0, "signed"},
		{"a release of one target", false, "key", "linux/amd64", 0, "all targets"},
		{"no target", true, "", "linux", 0, "no target"},
	} {
		chosen, err := choose(c.dry, c.key, c.list)
		if len(chosen) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", c.fact, chosen, err)
		}
	}
}
