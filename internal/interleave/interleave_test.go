package interleave_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/interleave"
)

// stepped are the packages with scenes: tests that are named TestInterleaved.
var stepped = []string{"window", "throttle", "budget", "bulkhead"}

// standIns are imported in place of packages of the standard library.
var standIns = strings.NewReplacer(
	`"sync"`, `"github.com/gabion-go/gabion/internal/interleave/sync"`,
	`"sync/atomic"`, `"github.com/gabion-go/gabion/internal/interleave/atomic"`,
)

// The scenes of those packages, with each access to memory that threads share a
// step of its own.
func TestScenes(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		if os.Getenv("GABION_REQUIRE_SERVERS") == "1" {
			t.Fatal("there is no go command to compile them with")
		}
		t.Skip("there is no go command to compile them with")
	}
	replace, dir := map[string]string{}, t.TempDir()
	for _, pkg := range stepped {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files of %s: %v", pkg, err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				standIn(t, file, filepath.Join(dir, pkg+"_"+filepath.Base(file)), replace)
			}
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"test", "-overlay", overlay, "-run", "^TestInterleaved", "-v"}
	for _, pkg := range stepped {
		args = append(args, "../"+pkg)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), interleave.MustStep+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// standIn writes a file anew with the stand-ins.
func standIn(t *testing.T, file, to string, replace map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(standIns.Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	replace[from] = to
}
