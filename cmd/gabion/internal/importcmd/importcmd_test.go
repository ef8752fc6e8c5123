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
	spring, err := os.ReadFile("../../../../internal/foreign/library/testdata/application.yml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // a path of some length is a line of its own
	for name, text := range map[string]string{
		"sample.json": sample, "application.yml": string(spring), "one.json": one, "none.json": "{}",
		"more.yml": "resilience4j:\n  retry:\n    instances:\n      mail: {maxAttempts: 2}\n",
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
		{scheme + "sample.json", 0, "  # /shop.Catalogue/*\n  \"shop.Catalogue\": # sample.json:3\n    safe: true # sample.json:7\n    timeout:\n      call: 2.5s # sample.json:5\n      attempt: off # sample.json:7\n      body: 2.5s # sample.json:5\n    retry:\n      attempts: 4 # sample.json:8\n", "not about calls that fail, and stays where it is: 1 of the keys"},
		{scheme + "sample.json --verbose", 0, "", "  sample.json:6: waitForReady has no counterpart"},
		{scheme + "sample.json", 0, "  # /shop.Prices/Get, all methods\n  \"shop.Prices.Get\": # sample.json:15\n    safe: true # sample.json:17\n    timeout:\n      attempt: off # sample.json:17\n", "this part stays the other system's, gRPC's by grpc.WithDefaultServiceConfig:\n{\"methodConfig\": ["},
		{scheme + "sample.json", 0, "    hedge:\n      max: 2 # sample.json:17\n      delay: 500ms # sample.json:17\n", "nearly the same:\n"},
		{scheme + "sample.json --method /shop.Catalogue/Get --dependency catalogue", 0, "dependencies:\n  # /shop.Catalogue/*\n  \"catalogue\": # sample.json:3\n", ""},
		{scheme + "sample.json --route shop.Catalogue", 0, "  \"shop.Catalogue\": #", ""},
		{scheme + "sample.json --method x.Y/Z", 0, "  \"shop.Prices.Get\": #", ""},
		{scheme + "sample.json --exact", 0, "    pace: off # sample.json:3\n    breaker: off # sample.json:3\n    bulkhead: off # sample.json:3\n", ""},
		{"grpc one.json --dependency catalogue", 0, "  \"catalogue\": # one.json:1\n    timeout:\n      call: 1s # one.json:1\n", ""},
		{"one.json", 0, "# from grpc-service-config: one.json\n", ""},
		{scheme + "none.json", 1, "", "no method has a config"},
		{scheme + "none.json", 1, "", "none.json: no route, client or method has a policy, so"},
		{scheme + "bad.json", 1, "", "bad.json:1:59: timeout: \"1\" has no unit\n  | … me\": [{\"service\": \"a\"}], \"timeout\": \"1\"}, {\"retryPolicy\": 3}]}\n  |                                       ^ write \"1s\" for seconds\nbad.json:1:81: retryPolicy wants an object, not 3"},
		{scheme + "one.json --method x.Y/Z", 2, "", "one.json has no route for x.Y/Z; it has /shop.Catalogue/*"},
		{scheme + "one.json --method x.Y/Z --route a", 2, "", "write one"},
		{scheme + "sample.json --dependency x", 2, "", "--dependency names one policy, and sample.json has 3"},
		{scheme + "none.json --dependency x", 2, "", "none.json has 0, none: choose\n    one with --route"},
		{scheme + "one.json --dependency é", 2, "", "is not a name: write letters, digits, dots"},
		{scheme + "/nowhere/sc.json", 3, "", "gabion import: open /nowhere/sc.json: no such file"},
		{scheme, 2, "", "no file is named after grpc-service-config\n\nusage:"},
		{scheme + "one.json one.json", 1, "", "one.json:"},
		{scheme + "-x", 2, "", "-x\n\nusage:"},
		{scheme + "-h", 0, "usage: gabion import", ""},
		{"", 2, "", "no file is named\n\nusage:"},
		{"envoi one.json", 2, "", "is no format: "},
		{"grpc-config one.json", 2, "", `did you mean grpc?`},
		{"none.json", 2, "", "none.json is no mapping with keys, and of no format that is read:\n    grpc-service-config"},
		{"application.yml", 0, "# from resilience4j: application.yml\n", "lost:\n"},
		{"spring application.yml --route catalogue", 0, "attempts: 4 # application.yml:8\n", "nearly the same:\n"},
		{"application.yml one.json", 2, "", "application.yml is of the format resilience4j, and one.json of\n    grpc-service-config"},
		{"resilience4j application.yml more.yml --verbose", 0, "  # resilience4j mail\n  \"mail\": # more.yml:4\n", "more.yml:4: resilience4j.retry.instances.mail"},
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
	for _, args := range []string{"grpc sample.json", "grpc bad.json", "grpc none.json", "spring application.yml", "spring application.yml --exact --verbose", "-h"} {
		var out, errOut bytes.Buffer
		cli.Run(t.Context(), Command(), strings.Fields(args), &out, &errOut)
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
