package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is the program itself when a test starts it: nothing is built a second time.
func TestMain(m *testing.M) {
	if os.Getenv("GABIONVET_MAIN") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The program finds a mistake by itself and for go vet.
func TestItRunsByItselfAndForGoVet(t *testing.T) {
	if testing.Short() {
		t.Skip("long: go vet analyzes a module")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/shop\n\ngo 1.26\n",
		"a.go": "package shop\n\nimport \"net/http\"\n\nfunc Serve() error {\n\treturn http.ListenAndServe(\":80\", nil)\n}\n" +
			"\nfunc Old() error {\n\t//gabion:ignore G125 a tool that a person can end\n\treturn http.ListenAndServe(\":80\", nil)\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for fact, args := range map[string][]string{
		"by itself":  {self, "./..."},
		"for go vet": {"go", "vet", "-vettool=" + self, "./..."},
	} {
		t.Run(fact, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GABIONVET_MAIN=1", "GOWORK=off", "GOFLAGS=")
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("it says that nothing is wrong")
			}
			if n := strings.Count(string(out), "G125: http.ListenAndServe has no timeouts"); n != 1 || !strings.Contains(string(out), "a.go:6:9") {
				t.Errorf("found %d times, want once, at a.go:6:9:\n%s", n, out)
			}
		})
	}
}
