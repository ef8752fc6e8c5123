package house

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakeGo is a go command that has the Go of go.mod and can fetch what FAKE_DOWNLOAD and FAKE_TOOLS let it.
const fakeGo = `#!/bin/sh
case "$*" in
"env GOVERSION") echo go99.0 ;;
"env GOPROXY") echo https://proxy.test ;;
*"list -deps tool"*) [ -z "$FAKE_TOOLS" ] || { echo "$FAKE_TOOLS" >&2; exit 1; } ;;
*"mod download"*) [ -z "$FAKE_DOWNLOAD" ] || { echo "$FAKE_DOWNLOAD" >&2; exit 1; } ;;
esac
`

const fakeMake = `#!/bin/sh
echo "ran make $1"
[ "$1" != "$FAKE_FAILS" ]
`

// needBash returns the path of bash.
func needBash(t *testing.T) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil || runtime.GOOS == "windows" {
		if os.Getenv("GABION_REQUIRE_SERVERS") == "1" {
			t.Fatal("bash is not installed, and what is in .ci are its scripts")
		}
		t.Skip("bash is not installed")
	}
	return bash
}

// runCI runs .ci/run with a fake go and a fake make, and returns its exit code and what it says.
func runCI(t *testing.T, env ...string) (code int, said string) {
	t.Helper()
	bash, bin := needBash(t), t.TempDir()
	for name, text := range map[string]string{"go": fakeGo, "make": fakeMake} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), bash, "../../.ci/run")
	cmd.Env = append(append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH")), env...)
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	} else if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// .ci/run ends with 75 where the network is away and never where the change is wrong.
func TestWhatTheRunFindsUnreachable(t *testing.T) {
	for _, c := range []struct {
		name, download, fails string
		code                  int
		text                  string
	}{
		{"everything passes", "", "", 0, "=== passed"},
		{"a test fails", "", "test-all", 1, "ran make test-all"},
		{"another project's test fails", "", "upstream", 1, "ran make upstream"},
		{"a check fails", "", "check", 1, "ran make check"},
		{"a call costs more", "", "instructions", 1, "ran make instructions"},
		{"a release would fail", "", "release", 1, "ran make release"},
		{"servers that are missing stop nothing", "", "servers", 0, "Going on without"},
		{"no name server", `go: a@v1.0.0: Get "https://proxy.test/a": dial tcp: lookup proxy.test: no such host`, "", 75, "UNREACHABLE"},
		{"a closed port", `Get "https://proxy.test/a": dial tcp 192.0.2.1:443: connect: connection refused`, "", 75, "UNREACHABLE"},
		{"a proxy that is ill", `reading https://proxy.test/a/@v/v1.0.0.mod: 503 Service Unavailable`, "", 75, "UNREACHABLE"},
		{"a connection that breaks", `Get "https://proxy.test/a": EOF`, "", 75, "UNREACHABLE"},
		{"offline on purpose", "a@v1.0.0: module lookup disabled by GOPROXY=off", "", 75, "UNREACHABLE"},
		{"a host of git is away", "fatal: unable to access 'https://git.test/a/': Could not resolve host: git.test", "", 75, "UNREACHABLE"},
		{"a sum is wrong", "verifying a@v1.0.0: checksum mismatch\nSECURITY ERROR", "", 1, "FAIL"},
		{"a version is not there", "reading https://proxy.test/a/@v/v9.0.0.mod: 404 Not Found", "", 1, "FAIL"},
		{"a revision is not there", "a@v9.0.0: invalid version: unknown revision v9.0.0", "", 1, "FAIL"},
		{"a go.mod is broken", "go: errors parsing go.mod:\ngo.mod:3: unknown directive: requires", "", 1, "FAIL"},
		{"a module needs a later Go", "go: go.mod requires go >= 99.1 (running go 99.0; GOTOOLCHAIN=local)", "", 1, "FAIL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out := runCI(t, "FAKE_DOWNLOAD="+c.download, "FAKE_FAILS="+c.fails)
			if code != c.code || !strings.Contains(out, c.text) {
				t.Errorf("exit code %d, want %d and %q in:\n%s", code, c.code, c.text, out)
			}
		})
	}
}

// The tools that make check builds are fetched before anything is tested.
func TestTheToolsAreFetchedWithTheModules(t *testing.T) {
	for fact, c := range map[string]struct {
		says, want string
		code       int
	}{
		"the network is away": {`Get "https://proxy.test/a": dial tcp 192.0.2.1:443: connect: connection refused`, "the modules of internal/tools could not be fetched", 75},
		"a sum is wrong":      {"verifying a@v1.0.0: checksum mismatch\nSECURITY ERROR", "FAIL: internal/tools", 1},
	} {
		code, out := runCI(t, "FAKE_TOOLS="+c.says)
		if code != c.code || !strings.Contains(out, c.want) || strings.Contains(out, "ran make") {
			t.Errorf("%s: exit code %d, want %d, %q and no test in:\n%s", fact, code, c.code, c.want, out)
		}
	}
}
