package lintcmd

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

const spring = `resilience4j:
  retry:
    instances:
      stock:
        maxAttempts: 4
        waitDuration: 200ms
`

// A file of another system is judged as its nearest policies, where it says what is judged.
func TestAFileOfAnotherSystem(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"application.yml": spring, "bad.yml": strings.Replace(spring, "Attempts: 4", "Attempts: -4", 1)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args        string
		code        int
		out, errOut string
	}{
		{"lint application.yml", 1, "application.yml:6:1: warning G003: stock: ", "application.yml: read as resilience4j: 2 keys mean the same, 1 nearly the same"},
		{"lint application.yml", 1, "  |         waitDuration: 200ms\n", ""},
		{"lint application.yml", 1, "^ in gabion's file: write ", ""},
		{"lint application.yml --diff", 1, "", "application.yml: read as resilience4j"},
		{"lint bad.yml", 1, "bad.yml:5:22: error G000: resilience4j.retry.instances.stock.maxAttempts: -4 is\n    too small", ""},
	} {
		var out, errOut bytes.Buffer
		code := cli.Run(t.Context(), Command(), strings.Fields(c.args)[1:], &out, &errOut)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.errOut) {
			t.Errorf("%s: %d\n%s\n%s", c.args, code, out.String(), errOut.String())
		}
	}
	if text, err := os.ReadFile("application.yml"); err != nil || string(text) != spring {
		t.Errorf("the file was changed: %s", text)
	}
}
