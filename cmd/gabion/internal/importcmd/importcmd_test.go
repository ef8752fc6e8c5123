package importcmd

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/grpcconfig"
)

const sample = `{
  "methodConfig": [
    {
      "name": [{"service": "shop.Catalogue"}],
      "timeout": "2.5s",
      "waitForReady": true,
      "retryPolicy": {
        "maxAttempts": 4,
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE", "INTERNAL", "ABORTED"]
      }
    },
    {
      "name": [{"service": "shop.Prices", "method": "Get"}, {}],
      "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["UNAVAILABLE", "ABORTED"]}
    },
    {"name": [{"service": "007"}]}
  ],
  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}
`

const one = `{"methodConfig": [{"name": [{"service": "shop.Catalogue"}], "timeout": "1s"}]}`

func inFolder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir()) // a path of some length is a line of its own
	for name, text := range map[string]string{
		"sample.json": sample, "one.json": one, "none.json": "{}",
		"bad.json": `{"methodConfig": [{"name": [{"service": "a"}], "timeout": "1"}, {"retryPolicy": 3}]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	inFolder(t)
	const scheme = "grpc-service-config "
	for _, c := range []struct {
		args        string
		code        int
		out, errOut string // parts of what is written
	}{
		{scheme + "sample.json", 0, "  # /shop.Catalogue/*\n  \"shop.Catalogue\":\n    safe: true\n    timeout: {call: 2.5s, attempt: off, body: 2.5s}\n", "note: sample.json:6:23: waitForReady has no counterpart"},
		{scheme + "sample.json", 0, "  # /shop.Prices/Get, all methods\n  \"shop.Prices.Get\":\n    safe: true\n    timeout: {attempt: off}\n    hedge: {max: 2, delay: 500ms}\n", "note: this part stays gRPC's; pass it to grpc.WithDefaultServiceConfig:\n{\"methodConfig\": ["},
		{scheme + "sample.json --method /shop.Catalogue/Get --dependency catalogue", 0, "dependencies:\n  # /shop.Catalogue/*\n  \"catalogue\":\n", ""},
		{scheme + "sample.json --method shop.Catalogue", 0, "  \"shop.Catalogue\":\n", ""},
		{scheme + "sample.json --method x.Y/Z", 0, "  \"shop.Prices.Get\":\n", ""},
		{scheme + "sample.json --exact", 0, "    pace: off\n    breaker: off\n    bulkhead: off\n", ""},
		{scheme + "one.json --dependency catalogue", 0, "  \"catalogue\":\n    timeout: {call: 1s, body: 1s}\n    retry:\n      attempts: 1\n", ""},
		{scheme + "none.json", 0, "dependencies:\n  {}\n", "no method has a config"},
		{scheme + "bad.json", 1, "", "bad.json:1:59: timeout: \"1\" has no unit\n  | … me\": [{\"service\": \"a\"}], \"timeout\": \"1\"}, {\"retryPolicy\": 3}]}\n  |                                       ^ write \"1s\" for seconds\nbad.json:1:81: retryPolicy wants an object, not 3"},
		{scheme + "one.json --method x.Y/Z", 2, "", "one.json has no method config for x.Y/Z; it has some for\n    /shop.Catalogue/*"},
		{scheme + "sample.json --dependency x", 2, "", "--dependency names one policy, and sample.json has 3"},
		{scheme + "none.json --dependency x", 2, "", "none.json has 0, for no\n    method: choose one"},
		{scheme + "one.json --dependency é", 2, "", "is not a name: write letters, digits, dots"},
		{scheme + "/nowhere/sc.json", 3, "", "gabion import: open /nowhere/sc.json: no such file"},
		{scheme, 2, "", "no file is named\n\nusage:"},
		{scheme + "a b", 2, "", `"b" is not expected`},
		{scheme + "-x", 2, "", "-x\n\nusage:"},
		{scheme + "-h", 0, "usage: gabion import", ""},
		{"help", 0, "usage: gabion import", ""},
		{"", 2, "", "say what to do: grpc-service-config\n\nusage:"},
		{"envoy", 2, "", `unknown command "envoy"` + "\n\nusage:"},
		{"grpc-config", 2, "", `did you mean "grpc-service-config"?`},
	} {
		var out, errOut bytes.Buffer
		code := cli.Run(t.Context(), Command(), strings.Fields(c.args), &out, &errOut)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.errOut) {
			t.Errorf("import %s: %d\n%s\n%s", c.args, code, out.String(), errOut.String())
		}
		if c.code != 0 && out.Len() > 0 {
			t.Errorf("import %s: talk on stdout: %s", c.args, out.String())
		}
	}
}

// What is written is read again without findings, and says what the config says.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	inFolder(t)
	for _, o := range []grpcconfig.Options{{}, {Exact: true}} {
		args := []string{"grpc-service-config", "sample.json"}
		if o.Exact {
			args = append(args, "--exact")
		}
		var out, errOut bytes.Buffer
		if code := cli.Run(t.Context(), Command(), args, &out, &errOut); code != 0 {
			t.Fatal(code, errOut.String())
		}
		f, err := config.Parse("gabion.yaml", out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		c, _ := grpcconfig.Parse("sample.json", []byte(sample), o)
		if len(f.Policies) != 3 || len(c.Methods) != 3 {
			t.Errorf("%d of %d policies", len(f.Policies), len(c.Methods))
		}
		for _, m := range c.Methods {
			if got := f.Policies[m.Dependency]; !reflect.DeepEqual(got, m.Policy) {
				t.Errorf("%+v: %s:\n%+v, want\n%+v\n%s", o, m.Dependency, got, m.Policy, out.String())
			}
		}
	}
}

// As a user sees it: the file on stdout, and what means something else on stderr.
func TestLinesFitIn80Columns(t *testing.T) {
	inFolder(t)
	for _, args := range []string{"sample.json", "bad.json", "none.json"} {
		var out, errOut bytes.Buffer
		cli.Run(t.Context(), Command(), []string{"grpc-service-config", args}, &out, &errOut)
		for line := range strings.Lines(out.String() + errOut.String()) {
			if bare := strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(bare) > 80 && !strings.HasPrefix(bare, "  | ") && !strings.HasPrefix(bare, "{") {
				t.Errorf("%s: %s", args, line)
			}
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestFailureToWriteIsTold(t *testing.T) {
	inFolder(t)
	var errOut bytes.Buffer
	if code := cli.Run(t.Context(), Command(), []string{"grpc-service-config", "one.json"}, full{}, &errOut); code != 3 || !strings.Contains(errOut.String(), "gabion import: no space") {
		t.Error(code, errOut.String())
	}
}
