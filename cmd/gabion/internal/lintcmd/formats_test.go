package lintcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// found is an outcome with everything that can be in one.
func found() outcome {
	in := []input{{name: "conf/a b.yaml", text: []byte("version: 1\ndependencies:\n  stock:\n    retry: {attempts: 8} # many\n  pay: {}\n")}}
	r := &request{}
	out := r.look(in)
	rule := lint.Rules()[1]
	at := config.Finding{File: in[0].name, Line: 4, Col: 22, Reason: "stock: 100% late: \"8\", and\r\nmore ::error::x", Proposal: "write attempts: 2", Snippet: "    retry: {attempts: 8} # many"}
	f := lint.Finding{Rule: rule, Severity: lint.Warning, Finding: at, Dependency: "stock", Path: "retry.attempts", Fix: []policyfile.Change{{Dependency: "stock", Path: "retry.attempts", Value: "2"}}}
	out.Findings = []lint.Finding{f}
	out.Ignored = []lint.Ignored{{Finding: f, Line: 3, Why: "it is meant"}}
	out.Unknown = []lint.Unknown{{Rule: rule, File: in[0].name, Dependency: "pay", Missing: "facts.rate", Why: "::the file does not say it"}}
	return out
}

// part walks into what JSON was decoded to.
func part(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch at := p.(type) {
		case string:
			v = v.(map[string]any)[at]
		case int:
			v = v.([]any)[at]
		}
		if v == nil {
			t.Fatalf("there is no %v in %v", p, path)
		}
	}
	return v
}

func sarifOf(t *testing.T, out outcome) any {
	t.Helper()
	var b bytes.Buffer
	r := &request{format: "sarif", stdout: &b}
	if err := r.write(out); err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSARIFSaysWhatWasFound(t *testing.T) {
	doc := sarifOf(t, found())
	run := part(t, doc, "runs", 0)
	results := part(t, run, "results").([]any)
	for _, rule := range part(t, run, "tool", "driver", "rules").([]any) {
		if id := part(t, rule, "id").(string); !strings.HasSuffix(part(t, rule, "helpUri").(string), "/docs/lint/"+id+".md") {
			t.Errorf("%v", rule)
		}
	}
	if len(results) != 2 || part(t, results[0], "level") != "warning" {
		t.Fatalf("%v", results)
	}
	place := part(t, results[0], "locations", 0, "physicalLocation")
	if part(t, place, "artifactLocation", "uri") != "conf/a%20b.yaml" || part(t, place, "region", "startLine") != json.Number("4") || part(t, place, "region", "startColumn") != json.Number("22") {
		t.Errorf("%v", place)
	}
	change := part(t, results[0], "fixes", 0, "artifactChanges", 0, "replacements", 0)
	if got := part(t, change, "insertedContent", "text"); got != "    retry: {attempts: 2} # many" || part(t, change, "deletedRegion", "endColumn") != json.Number("32") || part(t, change, "deletedRegion", "endLine") != json.Number("4") {
		t.Errorf("%v", change)
	}
	if results[0].(map[string]any)["suppressions"] != nil || part(t, results[1], "suppressions", 0, "justification") != "it is meant" {
		t.Errorf("%v", results)
	}
	id := part(t, results[0], "ruleId")
	if index, _ := part(t, results[0], "ruleIndex").(json.Number).Int64(); part(t, run, "tool", "driver", "rules", int(index), "id") != id {
		t.Errorf("the rule's index does not lead to %v", id)
	}
	if text := part(t, run, "invocations", 0, "toolExecutionNotifications", 0, "message", "text").(string); !strings.Contains(text, "pay: not evaluated: facts.rate") {
		t.Error(text)
	}
}

// The schema of SARIF comes with gosec, which is part of golangci-lint: where that was
// fetched to check this repository, the schema is there.
func TestSARIFIsThatOfItsSchema(t *testing.T) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/securego/gosec/v2")
	cmd.Dir = filepath.Join("..", "..", "..", "..", "internal", "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "GOPROXY=off")
	dir, err := cmd.Output()
	if err != nil || len(bytes.TrimSpace(dir)) == 0 {
		if os.Getenv("GABION_REQUIRE_SERVERS") == "1" { // .ci/run has fetched the tools' modules
			t.Fatalf("gosec, which has the schema, is not in the module cache: %v", err)
		}
		t.Skipf("gosec, which has the schema, is not in the module cache: make check fetches it (%v)", err)
	}
	file, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "report", "sarif", "testdata", "sarif-schema-2.1.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", text); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	r := &request{}
	for fact, out := range map[string]outcome{"everything": found(), "nothing": {}, "a broken file": r.look([]input{{name: "/tmp/x:y.yaml", text: []byte("{")}})} {
		if err := schema.Validate(sarifOf(t, out)); err != nil {
			t.Errorf("%s: %v", fact, err)
		}
	}
	doc := sarifOf(t, found())
	part(t, doc, "runs", 0, "results", 0).(map[string]any)["level"] = "bad"
	if schema.Validate(doc) == nil {
		t.Error("the schema finds nothing wrong with a level that there is not")
	}
}

func TestAnnotationsAreEscaped(t *testing.T) {
	r := &request{}
	out := found()
	out.Findings[0].File = "a,b:c%.yaml"
	text := r.github(out)
	want := "::warning file=a%2Cb%3Ac%25.yaml,line=4,col=22,title=" + out.Findings[0].Rule.ID + " " + out.Findings[0].Rule.Name + "::stock: 100%25 late: \"8\", and%0D%0Amore ::error::x%0Awrite attempts: 2%0Ahttps://"
	if !strings.HasPrefix(text, want) {
		t.Errorf("got %s, want %s", text, want)
	}
	commands := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.Contains(line, "::") })
	if len(commands) != 1 {
		t.Errorf("these are commands: %q", commands)
	}
	for severity, word := range map[lint.Severity]string{lint.Note: "::notice ", lint.Warning: "::warning ", lint.Error: "::error "} {
		out.Findings[0].Severity = severity
		if text := r.github(out); !strings.HasPrefix(text, word) {
			t.Errorf("%s is %.20q", severity, text)
		}
	}
}
