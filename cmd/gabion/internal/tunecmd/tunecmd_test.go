package tunecmd

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
)

const shop = `version: 1
title: A small shop, and errors for four seconds
duration: 14s
clients:
  shop: {count: 4, rate: 20/s, deadline: 3s, calls: [{to: db, network: exp 2ms}]}
services:
  db: {workers: 4, queue: 20, time: exp 20ms}
policies:
  db: {safe: true, timeout: {call: 3s, attempt: 1s}}
faults:
  - {kind: errors, service: db, at: 4s, for: 4s, share: 60%}
`

const timid = `version: 1
dependencies:
  # The ledger's database.
  db:
    safe: true
    timeout: {call: 3s, attempt: 1s}
    retry: {budget: {ratio: 1%, reserve: 1, start: 1}} # far too little
`

// folder has a scenario and a file, and is where the test is.
func folder(t *testing.T, file string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"shop.yaml": shop, "gabion.yaml": file} {
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// quick is a search that is over soon.
const quick = " --config gabion.yaml --goal goodput_first --vary retry.budget.ratio=1%,30%,100% --runs 40 --no-guard --time 0"

func tune(ctx context.Context, line string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "_first", " first")
	}
	code = cli.Run(ctx, Command(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestABetterFileIsShownAndWritten(t *testing.T) {
	folder(t, timid)
	code, text, stderr := tune(t.Context(), "shop.yaml"+quick)
	for _, want := range []string{"A better file was found", "-    retry: {budget: {ratio: 1%, reserve: 1, start: 1}} # far too little", "+    retry: {", "budget: {ratio: ", "again      gabion tune shop.yaml --config gabion.yaml --goal 'goodput first'"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if now, err := os.ReadFile("gabion.yaml"); code != cli.ExitOK || err != nil || string(now) != timid || !strings.Contains(stderr, "looking around") {
		t.Errorf("code %d, %v\n%s\n%s", code, err, stderr, now)
	}
	code, asJSON, stderr := tune(t.Context(), "--json --write shop.yaml"+quick)
	var made struct {
		Verdict, Diff string
		Changes       []lab.TuneChange
	}
	if err := json.Unmarshal([]byte(asJSON), &made); err != nil || code != cli.ExitOK || made.Verdict != "win" || !strings.Contains(text, made.Diff) || len(made.Changes) == 0 {
		t.Errorf("code %d, %v\n%s", code, err, asJSON)
	}
	now, err := os.ReadFile("gabion.yaml")
	said, wrong := config.Parse("gabion.yaml", now)
	for _, c := range made.Changes {
		if wrong != nil || !slices.ContainsFunc(said.Explain("db"), func(s policy.Setting) bool { return s.Path == c.Path && s.Value == c.To }) {
			t.Errorf("%s is not %s: %v\n%s", c.Path, c.To, wrong, now)
		}
	}
	info, err2 := os.Stat("gabion.yaml")
	if err != nil || err2 != nil || !strings.Contains(string(now), "# The ledger's database.") || info.Mode() != 0o640 || !strings.Contains(stderr, "written to gabion.yaml") {
		t.Errorf("%v %v\n%s\n%s", err, err2, stderr, now)
	}
	if left, _ := filepath.Glob(".gabion*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNothingIsWrittenThatIsNotResolved(t *testing.T) {
	const once = "version: 1\ndependencies:\n  db: {timeout: {call: 3s}}\n" // nothing may be repeated
	folder(t, once)
	code, text, stderr := tune(t.Context(), "shop.yaml --write --config gabion.yaml --vary breaker.open=1s,4s --runs 30 --no-guard")
	now, err := os.ReadFile("gabion.yaml")
	if code != cli.ExitFindings || err != nil || string(now) != once || !strings.Contains(text, "NOT RESOLVED") || !strings.Contains(stderr, "gabion.yaml is not changed") {
		t.Errorf("code %d, %v\n%s\n%s", code, err, stderr, text)
	}
}

// The demonstrations of docs/tune.md, with a bound of runs in place of one of time. The second
// takes four minutes of a processor.
func TestTheDemonstrationsEndWithAWin(t *testing.T) {
	if testing.Short() && os.Getenv("GABION_REQUIRE_SERVERS") != "1" {
		t.Skip("a short run has no time for it: tune takes 100 s of a processor, and make test-all plays it")
	}
	scenarios := []string{"brown-out"}
	if os.Getenv("GABION_SOAK") == "1" {
		scenarios = append(scenarios, "error-storm")
	}
	for _, scenario := range scenarios {
		code, text, stderr := tune(t.Context(), scenario+" --config testdata/hasty.yaml --time 0 --runs 1")
		if code != cli.ExitOK || strings.Contains(text, "WORSE") || !strings.Contains(text, "A better file was found") {
			t.Errorf("%s: code %d\n%s\n%s", scenario, code, text, stderr)
		}
	}
}

func TestAFileThatSomebodyElseChangedIsLeft(t *testing.T) {
	folder(t, timid)
	r := &request{config: "gabion.yaml", text: []byte(timid), edit: []byte("changed")}
	other := []byte(timid + "\n# from another program\n")
	if err := os.WriteFile("gabion.yaml", other, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.replace(); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Error(err)
	}
	if now, err := os.ReadFile("gabion.yaml"); err != nil || !bytes.Equal(now, other) {
		t.Errorf("%v %s", err, now)
	}
}

func TestInterruptedTuningSaysSo(t *testing.T) {
	folder(t, timid)
	ctx, stop := context.WithCancel(t.Context())
	var out, said bytes.Buffer
	calls := 0
	r := &request{now: func() time.Time {
		if calls++; calls == 40 { // which is asked for before each run
			stop()
		}
		return time.Unix(0, 0)
	}}
	code := cli.Run(ctx, r.command(), append(strings.Fields("shop.yaml --config gabion.yaml --vary retry.budget.ratio --no-guard --workers 1 --write"), "--goal", "goodput first"), &out, &said)
	now, err := os.ReadFile("gabion.yaml")
	if code != cli.ExitInterrupted || !strings.Contains(out.String(), "NOT VALIDATED") || err != nil || string(now) != timid {
		t.Errorf("code %d, %v\n%s\n%s", code, err, out.String(), said.String())
	}
	if code, _, says := tune(ctx, "shop.yaml"+quick); code != cli.ExitInterrupted || !strings.Contains(says, "interrupted before anything was known") {
		t.Errorf("code %d: %s", code, says)
	}
}

func TestWrongCommandLinesAndFiles(t *testing.T) {
	for _, c := range []struct {
		fact, line, file string
		code             int
		says             string
	}{
		{"no scenario", "--config gabion.yaml", timid, cli.ExitUsage, "no scenario is named"},
		{"no file", "shop.yaml", timid, cli.ExitUsage, "write --config gabion.yaml"},
		{"a flag that does not exist", "shop.yaml --goals x", timid, cli.ExitUsage, "-goals"},
		{"a scenario with a slip", "eror-storm --config gabion.yaml", timid, cli.ExitUsage, "did you mean error-storm?"},
		{"a scenario that is no file", "nowhere.yaml --config gabion.yaml", timid, cli.ExitFailure, "nowhere.yaml"},
		{"a file that does not exist", "shop.yaml --config nowhere.yaml", timid, cli.ExitFailure, "nowhere.yaml"},
		{"a file with mistakes", "shop.yaml --config gabion.yaml", "version: 1\ndependencies:\n  db: {retry: {atempts: 3}}\n", cli.ExitFindings, "gabion.yaml:3:"},
		{"a goal with a slip", "shop.yaml --config gabion.yaml --goal godput_first", timid, cli.ExitUsage, "^ did you mean goodput?"},
		{"a key with a slip", "shop.yaml --config gabion.yaml --vary retry.atempts", timid, cli.ExitUsage, "did you mean retry.attempts?"},
		{"a key that is no number", "shop.yaml --config gabion.yaml --vary safe", timid, cli.ExitUsage, "is a fact about the dependency"},
		{"a dependency that is not there", "shop.yaml --config gabion.yaml --dependency bd", timid, cli.ExitUsage, "did you mean db?"},
		{"half of an --as", "shop.yaml --config gabion.yaml --as db", timid, cli.ExitUsage, "write NAME=DEPENDENCY"},
		{"one name twice", "shop.yaml --config gabion.yaml --as db=db --as db=x", timid, cli.ExitUsage, "db is there twice"},
		{"time that runs backwards", "shop.yaml --config gabion.yaml --time -1s", timid, cli.ExitUsage, "not negative"},
	} {
		folder(t, c.file)
		code, stdout, stderr := tune(t.Context(), c.line)
		if code != c.code || !strings.Contains(stderr, c.says) || stdout != "" {
			t.Errorf("%s: code %d\n%s%s", c.fact, code, stdout, stderr)
		}
	}
	if code, stdout, _ := tune(t.Context(), "-h"); code != cli.ExitOK || stdout != usage {
		t.Errorf("code %d: %s", code, stdout)
	}
}

func TestProgressIsALineForEachPhaseAndHalfMinute(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&b, func() time.Time { return now })
	for _, s := range []struct {
		after time.Duration
		at    lab.TuneProgress
	}{
		{0, lab.TuneProgress{Phase: "looking around", Candidates: 31, Done: 1}},
		{29 * time.Second, lab.TuneProgress{Phase: "looking around", Candidates: 31, Done: 50}},
		{time.Second, lab.TuneProgress{Phase: "looking around", Candidates: 31, Done: 52}},
		{time.Second, lab.TuneProgress{Phase: "validating", Done: 1, All: 120}},
	} {
		now = now.Add(s.after)
		p.tell(s.at)
	}
	p.end()
	if want := "0s: looking around, 31 candidates, runs: 1\n30s: looking around, 31 candidates, runs: 52\n31s: validating, runs: 1 of 120\n"; b.String() != want {
		t.Error(b.String())
	}
}
