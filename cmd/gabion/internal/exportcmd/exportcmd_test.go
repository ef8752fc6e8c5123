package exportcmd

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/internal/foreign/export"
)

const one = "version: 1\ndependencies:\n  stock:\n    trust: internal\n    safe: true\n"

func inFolder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"one.yaml": one, "two.yaml": one + "  pay:\n    key: required\n", "none.yaml": "version: 1\n", "bad.yaml": "version: 1\ndependencies: {a: {retry: {attempts: -3}}}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func runs(t *testing.T, args string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = cli.Run(t.Context(), Command(), strings.Fields(args), &o, &e)
	return code, o.String(), e.String()
}

func TestExitCodes(t *testing.T) {
	inFolder(t)
	for _, c := range []struct {
		args        string
		code        int
		out, errOut string // parts of what is written
	}{
		{"--to istio one.yaml", 0, "# made by gabion export --to istio from stock of one.yaml\n# policy sha256:", "  lost:\n"},
		{"--to istio one.yaml", 0, "      attempts: 2\n", "stock: Istio: VirtualService and DestinationRule\n  kept:\n    timeout.call 15s -> http[].timeout\n"},
		{"--to istio two.yaml", 0, "retryOn: \"connect-failure,refused-stream\"\n", "GET, HEAD and OPTIONS are repeated."},
		{"--to istio two.yaml --dependency pay --host pay.shop", 0, "  hosts: [pay.shop]\n", "pay: "},
		{"--to grpc one.yaml", 0, "{\n  \"methodConfig\": [{", "retryThrottling"},
		{"--to grpc two.yaml", 2, "", "of one dependency, and two.yaml has"},
		{"--to istio two.yaml --host x", 2, "", "--host is of one dependency"},
		{"--to istio two.yaml --dependency stok", 2, "", "did you mean stock?"},
		{"--to istio none.yaml", 2, "", "none.yaml has no dependency"},
		{"--to istio bad.yaml", 1, "", "bad.yaml:2:"},
		{"--to istio nowhere.yaml", 3, "", "gabion export: open nowhere.yaml"},
		{"--to isto one.yaml", 2, "", "did you mean istio?"},
		{"one.yaml", 2, "", "--to FORMAT is missing"},
		{"--to istio", 2, "", "no file is named"},
		{"--to istio one.yaml two.yaml", 2, "", `"two.yaml" is not expected`},
		{"--to istio one.yaml -o a --check b", 2, "", "name one of them"},
		{"--to istio one.yaml --check nowhere", 3, "", "open nowhere"},
	} {
		code, out, errOut := runs(t, c.args)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.errOut) {
			t.Errorf("export %s: %d\n%s\n%s", c.args, code, out, errOut)
		}
		if c.code != 0 && out != "" {
			t.Errorf("export %s: talk on stdout: %s", c.args, out)
		}
	}
}

// A checked-in export that is not what the file says any more is found, also where the change is lost.
func TestAStaleExportIsFound(t *testing.T) {
	inFolder(t)
	for _, format := range export.Names() {
		if code, out, errOut := runs(t, "--to "+format+" one.yaml -o out"); code != 0 || out != "" {
			t.Fatal(format, code, out, errOut)
		}
		if code, out, _ := runs(t, "--to "+format+" one.yaml --check out"); code != 0 || out != "" {
			t.Error(format, code, out)
		}
		for change, shows := range map[string]string{"    timeout: {call: 9s}\n": "\n-", "    hedge: {max: 1}\n": "\n+# policy sha256:"} {
			if err := os.WriteFile("later.yaml", []byte(one+change), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, errOut := runs(t, "--to "+format+" later.yaml --check out")
			visible := strings.Contains(change, "timeout") && format != "dapr" || format != "grpc" // Dapr has no time for a call, and JSON no comments
			if visible && (code != 1 || !strings.Contains(out, shows) || !strings.Contains(errOut, "out is stale")) {
				t.Errorf("%s: %s: %d\n%s\n%s", format, change, code, out, errOut)
			}
		}
	}
}

func TestLinesFitIn80Columns(t *testing.T) {
	inFolder(t)
	for _, format := range export.Names() {
		_, _, says := runs(t, "--to "+format+" two.yaml --dependency pay")
		for line := range strings.Lines(says) {
			if bare := strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(bare) > 80 {
				t.Errorf("%s: %s", format, line)
			}
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestFailureToWriteIsTold(t *testing.T) {
	inFolder(t)
	var errOut bytes.Buffer
	if code := cli.Run(t.Context(), Command(), []string{"--to", "istio", "one.yaml"}, full{}, &errOut); code != 3 || !strings.Contains(errOut.String(), "gabion export: no space") {
		t.Error(code, errOut.String())
	}
}
