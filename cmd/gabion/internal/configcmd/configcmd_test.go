package configcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
)

const sample = `version: 1
dependencies:
  payments:
    preset: payment
    timeout: {call: "${CALL:-15s}"}
    hedge: off
  users:
    breaker: off
`

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gabion.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	t.Chdir(t.TempDir()) // a path of some length is a line of its own
	const good, bad = "good.yaml", "gabion.yaml"
	for name, text := range map[string]string{good: sample, bad: "version: 1\ndependencies: {a: {retry: {attempts: 0}}}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args        string
		code        int
		out, errOut string // parts of what is written
	}{
		{"print -f " + good, 0, "      attempts: 4\n", ""},
		{"print -f " + good + " --dependency users", 0, "version: 1\ndependencies:\n  users:\n    trust: external\n", ""},
		{"print -f " + good, 0, "    breaker: off\n", ""},
		{"print -f " + good, 0, "      call: '${CALL:-15s}'\n", ""},
		{"print -f " + good + " --reveal", 0, "      call: 15s\n", ""},
		{"print -f " + good + " --dependency orders", 2, "", `has no "orders"; it has payments, users`},
		{"print -f " + bad, 1, "", `gabion.yaml:2:38: a: retry.attempts: "0" would mean the default`},
		{"print -f /nowhere/gabion.yaml", 3, "", "gabion config: open /nowhere/gabion.yaml: no such file"},
		{"print", 2, "", "gabion config print: no file is named: -f FILE is missing\n\nusage:"},
		{"print -x", 2, "", "-x\n\nusage:"},
		{"print -h", 0, "usage:", ""},
		{"explain -h", 0, "usage:", ""},
		{"explain", 2, "", "gabion config explain: no file is named: -f FILE is missing\n\nusage:"},
		{"explain my.yaml", 2, "", `if "my.yaml" is the file, write -f my.yaml` + "\n\nusage:"},
		{"print users -f " + good, 2, "", `gabion config print: "users" is not expected` + "\n\nusage:"},
		{"explain -f " + good + " payments.retry.attempts", 0, "payments.retry.attempts  4      preset payment\n", ""},
		{"explain payments.hedge -f " + good, 0, "payments.hedge  off    " + good + ":6\n", ""},
		{"explain users.breaker.window -f " + good, 0, "users.breaker  off    " + good + ":8\n", ""},
		{"explain -f " + good + " payments.zzz", 2, "", `gabion config: payments has no "zzz"; it has trust, key, safe, timeout, retry, hedge, `},
		{"explain -f " + good + " payments.retry.zzz", 2, "", `gabion config: payments has no "retry.zzz"; it has trust, `},
		{"explain -f " + good + " payments.retry.budget.rati", 2, "", "http, grpc, prices, partitions, fleet; did you mean retry.budget.ratio?\n"},
		{"explain -f " + good + " payments.timeuot", 2, "", "http, grpc, prices, partitions, fleet; did you mean timeout?\n"},
		{"explain -f " + good + " payment.retry", 2, "", "it has payments, users; did you mean payments.retry?\n"},
		{"explain -f " + good + " zzz.retry", 2, "", `has no "zzz.retry"; it has payments, users`},
		{"explain -f " + good + " a b", 2, "", `"b" is not expected` + "\n\nusage:"},
		{"check " + good, 0, good + ": 2 dependencies, no mistakes\n", ""},
		{"check -f " + good, 0, good + ": 2 dependencies, no mistakes\n", ""},
		{"check " + bad, 1, "", `gabion.yaml:2:38: a: retry.attempts: "0" would mean the default`},
		{"check /nowhere/gabion.yaml", 3, "", "no such file"},
		{"check", 2, "", "no file is named"},
		{"check a b", 2, "", `"b" is not expected`},
		{"check -f a b", 2, "", `"b" is not expected`},
		{"check -h", 0, "Exit codes: 0 the file is fine, 1 it has mistakes, 2 called wrongly", ""},
		{"", 2, "", "gabion config: say what to do: check, print or explain\n\nusage:"},
		{"help", 0, "usage:", ""},
		{"zzz", 2, "", `unknown command "zzz"`},
	} {
		var out, errOut bytes.Buffer
		code := cli.Run(t.Context(), Command(), strings.Fields(c.args), &out, &errOut)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.errOut) {
			t.Errorf("config %s: %d\n%s\n%s", c.args, code, out.String(), errOut.String())
		}
		if c.code != 0 && out.Len() > 0 {
			t.Errorf("config %s: talk on stdout: %s", c.args, out.String())
		}
	}
}

// B10: attempts that nothing allows are said to be so.
func TestExplainNotesWhatIsNotDeclaredSafe(t *testing.T) {
	path := file(t, `version: 1
dependencies:
  keyed: {key: made}
  once: {retry: off}
  plain: {}
  required: {preset: payment}
  safe: {safe: true}
`)
	for _, c := range []struct {
		fact, word string
		noted      bool
	}{
		{"the whole file", "", true},
		{"a dependency without a word on it", "plain", true},
		{"its attempts", "plain.retry.attempts", true},
		{"the declaration itself", "plain.safe", true},
		{"what has nothing to do with it", "plain.bulkhead", false},
		{"keys are made", "keyed", false},
		{"keys are required", "required", false},
		{"declared safe", "safe", false},
		{"nothing is retried anyway", "once", false},
	} {
		var table, asJSON, errOut bytes.Buffer
		args := strings.Fields("explain -f " + path + " " + c.word)
		cli.Run(t.Context(), Command(), args, &table, &errOut)
		cli.Run(t.Context(), Command(), append(args, "--json"), &asJSON, &errOut)
		const want = "note: plain: nothing is declared safe: only what provably never left is retried, unless a call brings a key"
		whole := strings.Join(strings.Fields(table.String()), " ")
		if n := strings.Count(whole, "note:"); (n == 1) != c.noted || n > 1 || strings.Contains(whole, want) != c.noted {
			t.Errorf("%s:\n%s", c.fact, table.String())
		}
		var got struct{ Notes []note }
		if err := json.Unmarshal(asJSON.Bytes(), &got); err != nil || got.Notes == nil || (len(got.Notes) == 1) != c.noted {
			t.Errorf("%s: %v, %+v\n%s%s", c.fact, err, got, asJSON.String(), errOut.String())
		}
	}
}

func TestExplainJSON(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := cli.Run(t.Context(), Command(), []string{"explain", "-f", file(t, sample), "payments.timeout.call", "--json"}, &out, &errOut); code != 0 {
		t.Fatal(errOut.String())
	}
	var got struct {
		Version  int
		Settings []line
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Version != 1 || len(got.Settings) != 1 {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if s := got.Settings[0]; s.Value != "${CALL:-15s}" || !strings.HasSuffix(s.Source, "gabion.yaml:5, variable CALL") {
		t.Errorf("got %+v", s)
	}
}

// What a command prints is a file again.
func TestPrintIsReadAgain(t *testing.T) {
	var out, errOut bytes.Buffer
	cli.Run(t.Context(), Command(), []string{"print", "-f", file(t, sample)}, &out, &errOut)
	if _, err := config.Parse("printed", out.Bytes()); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestFailureToWriteIsTold(t *testing.T) {
	var errOut bytes.Buffer
	if code := cli.Run(t.Context(), Schema(), nil, broken{}, &errOut); code != 3 || !strings.Contains(errOut.String(), "no space left") {
		t.Errorf("%d, %s", code, errOut.String())
	}
}

// The schema is one by draft 2020-12, and agrees with the parser on whole files.
func TestSchema(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := cli.Run(t.Context(), Schema(), nil, &out, &errOut); code != 0 {
		t.Fatal(errOut.String())
	}
	doc, err := jsonschema.UnmarshalJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("gabion.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("gabion.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../../../config/gabion.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name, text string
		valid      bool
	}{
		{"the example", string(example), true},
		{"a sample", sample, true},
		{"only a version", "version: 1", true},
		{"no version", "defaults: {}", false},
		{"another version", "version: 2", false},
		{"an unknown key", "version: 1\ndefaults: {retries: {}}", false},
		{"an unknown preset", "version: 1\ndependencies: {a: {preset: b}}", false},
		{"a preset for all", "version: 1\ndefaults: {preset: payment}", false},
		{"a bare number for a duration", "version: 1\ndefaults: {timeout: {call: 5}}", false},
		{"a bare number for a share", "version: 1\ndefaults: {breaker: {failure_rate: 0.5}}", false},
		{"an unknown word", "version: 1\ndefaults: {trust: us}", false},
		{"nothing at all for a count", "version: 1\ndefaults: {retry: {attempts: 0}}", false},
		{"a section that can't be off", "version: 1\ndefaults: {timeout: off}", false},
		{"a bad name", "version: 1\ndependencies: {'a b': {}}", false},
		{"everything off", "version: 1\ndefaults: {retry: off, hedge: off, pace: off, throttle: off, breaker: off, bulkhead: off, rate_limit: off}", true},
	} {
		var v any
		if err := yaml.Unmarshal([]byte(f.text), &v); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(v) // numbers as the validator wants them
		if err != nil {
			t.Fatal(err)
		}
		v, _ = jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err := schema.Validate(v); (err == nil) != f.valid {
			t.Errorf("%s: schema says %v", f.name, err)
		}
		if _, err := config.Parse("f", []byte(f.text)); (err == nil) != f.valid {
			t.Errorf("%s: the parser says %v", f.name, err)
		}
	}
}

// What hedges come to is said where they are explained.
func TestExplainNotesWhatHedgesComeTo(t *testing.T) {
	for _, c := range []struct{ fact, keys, want string }{
		{"nothing says that a call may run twice", "hedge: {max: 1, delay: 200ms}", "no call is hedged, unless it brings a key"},
		{"keys run twice at once", "key: required, hedge: {max: 1, delay: 200ms}", "hedges send the same key twice at once"},
		{"no budget", "safe: true, hedge: {max: 2, delay: 200ms}, retry: {budget: off}", "hedges have no bound: with retry.budget off, a dependency that becomes slow gets up to 3 times the load"},
		{"no delay", "safe: true, hedge: {max: 2, percentile: off}", "every call is sent 3 times at once"},
		{"the usual percentile", "safe: true, hedge: {max: 2}", ""},
		{"all is said", "safe: true, hedge: {max: 1, delay: 200ms}", ""},
		{"no hedges", "safe: true, retry: {budget: off}", ""},
	} {
		path := file(t, "version: 1\ndependencies: {d: {"+c.keys+"}}\n")
		var out, errOut bytes.Buffer
		cli.Run(t.Context(), Command(), []string{"explain", "-f", path, "d.hedge"}, &out, &errOut)
		got := strings.Join(strings.Fields(out.String()), " ")
		if c.want == "" && strings.Contains(got, "note:") || !strings.Contains(got, c.want) || errOut.Len() > 0 {
			t.Errorf("%s:\n%s%s", c.fact, &out, &errOut)
		}
	}
}

// What is printed fits in 80 columns, but for names that are longer.
func TestTablesAndFindingsFitIn80Columns(t *testing.T) {
	t.Chdir(t.TempDir())
	name := strings.Repeat("n", 40)
	write := func(text string) {
		if err := os.WriteFile("gabion.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 1\ndefaults: {trust: internal}\ndependencies:\n  " + name + ": {timeout: {call: '${CALL_TIMEOUT_OF_PAYMENTS:-15s}'}, hedge: {max: 2}, retry: {budget: off}}\n")
	for _, args := range []string{"explain", "check", "print"} {
		var out, errOut bytes.Buffer
		if code := cli.Run(t.Context(), Command(), []string{args, "-f", "gabion.yaml"}, &out, &errOut); code != 0 {
			t.Fatalf("%d: %s", code, &errOut)
		}
		narrow(t, out.String())
	}
	write("version: 1\ndependencies:\n  payments: {timeout: {call: 250}, retry: {attempts: 0, budget: {ratio: 700%}}, breaker: {window: 1s}, bulkhead: {limit: 0}}\n")
	var out, errOut bytes.Buffer
	cli.Run(t.Context(), Command(), []string{"check", "gabion.yaml"}, &out, &errOut)
	narrow(t, errOut.String())
	if n := strings.Count(errOut.String(), "\ngabion.yaml:3:"); n < 3 {
		t.Errorf("%d findings:\n%s", n+1, &errOut)
	}
}

func narrow(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestExplainSaysWhereAProxySendsRequests(t *testing.T) {
	var out, bad bytes.Buffer
	if code := cli.Run(t.Context(), Command(), []string{"explain", "-f", "../../../../deploy/proxy/gabion.yaml"}, &out, &bad); code != cli.ExitOK ||
		!strings.Contains(out.String(), "proxy: 127.0.0.1:9001: everything to https://api.openai.com, as llm\n") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), bad.String())
	}
}
