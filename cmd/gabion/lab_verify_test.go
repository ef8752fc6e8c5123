package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab"
)

func TestLabAnchors(t *testing.T) {
	for _, c := range []struct {
		fact, args     string
		code           int
		stdout, stderr string // what they contain
	}{
		{"lab alone shows help, as a mistake", "lab", 2, "", "usage: gabion lab"},
		{"lab help", "lab help", 0, "verify", ""},
		{"help on lab", "help lab", 0, "anchor", ""},
		{"an unknown word", "lab anchr", 2, "", `"anchr"`},
		{"verify takes no names", "lab verify aws-occ", 2, "", "aws-occ"},
		{"verify -h", "lab verify -h", 0, "--json", ""},
		{"an anchor without a name", "lab anchor", 2, "", "name one anchor"},
		{"with two names", "lab anchor vegas gradient", 2, "", "name one anchor"},
		{"anchor -h lists them", "lab anchor -h", 0, "aws-occ", ""},
		{"an anchor's -h lists its settings", "lab anchor tail -h", 0, "fanout", ""},
		{"a slip in a name", "lab anchor vegs", 2, "", `did you mean "vegas"?`},
		{"a slip in a key", "lab anchor vegas --set capcity=20", 2, "", `did you mean "capacity"?`},
		{"a value that can't be", "lab anchor vegas --set capacity=none", 2, "", "want a whole number"},
		{"a setting without a value", "lab anchor vegas --set capacity", 2, "", "KEY=VALUE"},
		{"one set twice", "lab anchor vegas --set start=1 --set start=2", 2, "", "set twice"},
		{"a flag that does not exist", "lab anchor vegas --fast", 2, "", "-fast"},
		{"figures as a table", "lab anchor vegas --set capacity=20", 0, "limit            26\n", ""},
		{"settings before the name", "lab anchor --set capacity=20 --set start=11 vegas", 0, "limit            23\n", ""},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.fact, code, c.code)
		}
		for _, s := range []struct {
			got  *bytes.Buffer
			want string
		}{{&stdout, c.stdout}, {&stderr, c.stderr}} {
			if s.want == "" && s.got.Len() > 0 || !strings.Contains(s.got.String(), s.want) {
				t.Errorf("%s: got %q, want %q", c.fact, s.got, s.want)
			}
		}
	}
}

func TestLabAnchorWritesJSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), strings.Fields("lab anchor layers --json --set tries=4 --set layers=3 --set seconds=1"), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	want := "{\n  \"cases\": [\n    {\n      \"name\": \"amplification\",\n      \"measured\": 64\n    }\n  ]\n}\n"
	if stdout.String() != want {
		t.Errorf("got %s, want %s", &stdout, want)
	}
}

func TestLabVerifyTellsCases(t *testing.T) {
	good := lab.AnchorCase{Figure: lab.AnchorFigure{Name: "a: x", Measured: 1.5}, Expected: 1.4, Tolerance: 0.2, Pass: true}
	bad := lab.AnchorCase{Figure: lab.AnchorFigure{Name: "b: y", Measured: 3}, Expected: 2, Bound: "at most"}
	for _, c := range []struct {
		fact  string
		cases []lab.AnchorCase
		json  bool
		code  int
		want  string
	}{
		{"all hold", []lab.AnchorCase{good}, false, 0, "all 1 hold"},
		{"one does not", []lab.AnchorCase{good, bad}, false, 1, "1 of 2 don't hold"},
		{"a bound is said", []lab.AnchorCase{bad}, false, 1, "at most 2"},
		{"as JSON", []lab.AnchorCase{good}, true, 0, `"pass": true`},
		{"as JSON, failing", []lab.AnchorCase{bad}, true, 1, `"pass": false`},
	} {
		var out bytes.Buffer
		code, err := tellCases(&out, c.cases, c.json)
		if err != nil || code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %d, %v, %q", c.fact, code, err, &out)
		}
		var back struct{ Cases []lab.AnchorCase }
		if c.json && (json.Unmarshal(out.Bytes(), &back) != nil || back.Cases[0] != c.cases[0]) {
			t.Errorf("%s: read back %+v", c.fact, back)
		}
	}
}

func TestLabVerifyWritesFiles(t *testing.T) {
	bad := []lab.AnchorCase{{Figure: lab.AnchorFigure{Name: "b: y", Measured: 3}, Expected: 2}}
	path := filepath.Join(t.TempDir(), "x")
	for _, c := range []struct {
		write func(io.Writer, []lab.AnchorCase) error
		want  string
	}{{lab.AnchorsJUnit, `classname="anchor.b"`}, {lab.AnchorsMarkdown, "1 of 1"}} {
		err := keepCases(path, c.write, bad)
		if text, _ := os.ReadFile(path); err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%v, %s", err, text)
		}
	}
	if err := keepCases("", lab.AnchorsJUnit, bad); err != nil {
		t.Error(err)
	}
	if err := keepCases(filepath.Join(path, "no", "folder"), lab.AnchorsJUnit, bad); err == nil {
		t.Error("a folder that is not there is no error")
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestLabFailures(t *testing.T) {
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"lab", "anchor", "vegas"}, brokenPipe{}, &stderr); code != cli.ExitFailure || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("a broken pipe: %d, %q", code, &stderr)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range [][]string{{"lab", "verify"}, {"lab", "anchor", "aws-occ"}} {
		var stdout, stderr bytes.Buffer
		if code := run(ctx, args, &stdout, &stderr); code != cli.ExitInterrupted || stdout.Len() > 0 || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("%v, interrupted: %d, %q, %q", args, code, &stdout, &stderr)
		}
	}
}
