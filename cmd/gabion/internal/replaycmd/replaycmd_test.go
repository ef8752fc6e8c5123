package replaycmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/past"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab"
)

// replay runs the command.
func replay(t *testing.T, args ...string) (code int, out, complaint string) {
	t.Helper()
	c := Command()
	var stdout, stderr bytes.Buffer
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	if err != nil {
		code = -1
		for n := range 4 {
			if strings.HasSuffix(err.Error(), "exit code "+string(rune('0'+n))) {
				code = n
			}
		}
	}
	return code, stdout.String(), stderr.String()
}

// recorded writes the recording of a world.
func recordedWorld(t *testing.T, name string) string {
	t.Helper()
	for i := range truths {
		if truths[i].name != name {
			continue
		}
		var text bytes.Buffer
		truths[i].run(t, truths[i].policy, &text)
		path := filepath.Join(t.TempDir(), "calls.jsonl")
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Fatalf("there is no world %q", name)
	return ""
}

// What is written is a scenario that the lab runs and tunes.
func TestAReplayIsAScenario(t *testing.T) {
	calls := recordedWorld(t, "errors for half")
	folder := t.TempDir()
	scenario, file := filepath.Join(folder, "tuesday.yaml"), filepath.Join(folder, "gabion.yaml")
	text := "version: 1\ndependencies:\n  db: {safe: true, timeout: {call: 2s, attempt: 800ms}, retry: off}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, complaint := replay(t, calls, "--out", scenario, "--against", file, "--against", "polly")
	for _, want := range []string{"The replay agrees with what happened", "whole", "Taken for granted:", "a dependency\n  that more attempts make slower", "policy", "\ntoday ", "\ndefaults ", "\npreset payment ", "\nplain ", "\npolly ", "\n" + file + " "} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	if code != 0 || !strings.Contains(complaint, "scenario written to "+scenario) {
		t.Fatalf("%d, %s", code, complaint)
	}
	s, err := lab.Load(scenario)
	if err != nil {
		t.Fatal(err)
	}
	w := &request{config: file}
	world, err := w.world(calls)
	if err != nil {
		t.Fatal(err)
	}
	tuned, err := lab.Tune(t.Context(), lab.TuneOptions{Scenarios: []*lab.Scenario{s}, Config: world.file, Dependency: "db", Runs: 10, NoGuard: true})
	if err != nil || !tuned.Won() {
		t.Errorf("a policy without retries is not improved: %v", err)
	}
}

// A replay that does not agree says so first, and nothing else without --force.
func TestAReplayThatDoesNotAgree(t *testing.T) {
	calls := recordedWorld(t, "brown-out")
	code, out, complaint := replay(t, calls)
	if code != 1 || !strings.HasPrefix(out, "THE REPLAY DOES NOT AGREE") || !strings.Contains(out, "differs") || strings.Contains(out, "The same with other policies") || !strings.Contains(complaint, "--force") {
		t.Errorf("%d\n%s%s", code, out, complaint)
	}
	code, out, _ = replay(t, calls, "--force")
	if code != 0 || !strings.HasPrefix(out, "THE REPLAY DOES NOT AGREE") || !strings.Contains(out, "The same with other policies") {
		t.Errorf("%d\n%s", code, out)
	}
}

// What answered 429 is a rate limit in the scenario.
func TestAThrottledReplay(t *testing.T) {
	scenario := filepath.Join(t.TempDir(), "x.yaml")
	code, out, complaint := replay(t, recordedWorld(t, "throttled"), "--out", scenario)
	text, err := os.ReadFile(scenario)
	if code != 0 || err != nil || !strings.Contains(string(text), "kind: rate_limit") || !strings.Contains(out, "answers 429 to the others") {
		t.Errorf("%d, %v, %s\n%s\n%s", code, err, complaint, out, text)
	}
}

func TestWrongCommandLines(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bare := write("bare.jsonl", `{"at":1,"kind":"returned","dependency":"db","call":1,"took":1}`+"\n")
	other := write("other.yaml", "version: 1\ndependencies: {x: {}, y: {}}\n")
	db := write("db.yaml", "version: 1\ndependencies: {db: {}}\n")
	wrong := write("wrong.yaml", "version: 1\ndependencies: {db: {timeot: {}}}\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "no file is named"},
		{[]string{"a", "b"}, 2, `"b" is not expected`},
		{[]string{"a", "--for", "-1s"}, 2, "--for is not negative"},
		{[]string{"a", "--out", "x.json"}, 2, "the name of a scenario ends in .yaml"},
		{[]string{bare, "--config", db, "--out", filepath.Join(folder, "a, b.yaml")}, 2, "has no comma"},
		{[]string{filepath.Join(folder, "none")}, 3, "no such file"},
		{[]string{folder}, 3, "is a directory"},
		{[]string{bare}, 3, "does not say which policy was in force: name its file with --config"},
		{[]string{bare, "--config", other}, 3, "has no policy of db: it has x, y"},
		{[]string{bare, "--config", wrong}, 1, "did you mean timeout?"},
		{[]string{bare, "--config", db, "--against", "poly"}, 2, "polly"},
		{[]string{bare, "--config", db, "--against", other}, 3, "has no policy of db: it has x, y"},
	} {
		code, out, complaint := replay(t, append(c.args, "--force")...)
		if code != c.code || !strings.Contains(complaint, c.want) {
			t.Errorf("%v: %d, %s%s\nwant %d, %s", c.args, code, out, complaint, c.code, c.want)
		}
	}
}

func TestSettingsBecomeASection(t *testing.T) {
	f, err := parse("x", "  db:\n    safe: true\n    timeout: {call: 2s, attempt: 800ms}\n    hedge: off\n    retry: {budget: off, backoff: {base: 20ms}}\n    http: {permanent: [501, 505]}\n")
	if err != nil {
		t.Fatal(err)
	}
	text := section("db", changesOf(f, "db"))
	again, err := parse("y", text)
	if err != nil || policyfile.Of(again).YAML(true) != policyfile.Of(f).YAML(true) {
		t.Errorf("%v\n%s", err, text)
	}
	if text := section("db", nil); text != "  db: {}\n" {
		t.Error(text)
	}
	for of, want := range map[string]string{"Payments API": "payments-api", "a.b.c:80": "a-b-c-80", "…": "dependency", strings.Repeat("x", 50): strings.Repeat("x", 40)} {
		if got := serviceName(of); got != want {
			t.Errorf("%q: %q, want %q", of, got, want)
		}
	}
}

// The whole and nine of ten calls must agree. Chance excuses bins only.
func TestWhatAgreementIs(t *testing.T) {
	ms := time.Millisecond
	then := past.Bin{Ended: 200, Answered: 200, P50: 100 * ms, P99: 500 * ms, P99Between: [2]time.Duration{300 * ms, 900 * ms}}
	for _, c := range []struct {
		now           past.Bin
		bin, asAWhole bool
	}{
		{past.Bin{Ended: 200, Answered: 192, P50: 114 * ms, P99: 430 * ms}, true, true},
		{past.Bin{Ended: 200, Answered: 188, P50: 100 * ms, P99: 500 * ms}, false, false},
		{past.Bin{Ended: 200, Answered: 200, P50: 116 * ms, P99: 500 * ms}, false, false},
		{past.Bin{Ended: 200, Answered: 200, P50: 100 * ms, P99: 800 * ms}, true, false},
		{past.Bin{Ended: 200, Answered: 200, P50: 100 * ms, P99: 950 * ms}, false, false},
	} {
		bin, whole := judge(then, c.now, true), judge(then, c.now, false)
		if bin.agrees() != c.bin || whole.agrees() != c.asAWhole {
			t.Errorf("%+v: %v and %v, want %v and %v", c.now, bin.agrees(), whole.agrees(), c.bin, c.asAWhole)
		}
	}
	whole := judge(then, then, false)
	for share, want := range map[float64]bool{0.89: false, 0.9: true, 1: true} {
		if a := (agreement{whole: whole, share: share}); a.holds() != want {
			t.Errorf("with %v of the calls: %v", share, a.holds())
		}
	}
}

// A dependency may have any name, also one that the scenario or YAML has for something else.
func TestADependencyOfAnyNameIsReplayed(t *testing.T) {
	for _, name := range []string{"callers", "true", "null", "12", strings.Repeat("1e3", 20), "Payments API", "a, b", "größe"} {
		p := &past.Past{Dependency: name, Clients: 1, Width: time.Second, Bins: make([]past.Bin, 4)}
		for i := range 40 {
			p.Rows = append(p.Rows, past.Row{At: time.Duration(i) * 100 * time.Millisecond, Took: 10 * time.Millisecond, Status: 200})
		}
		for _, changes := range [][]policyfile.Change{nil, {{Path: "timeout.call", Value: "2s"}}} {
			w, err := newWorld(p, changes)
			if err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			if _, _, err := (&request{out: filepath.Join(t.TempDir(), "x.yaml")}).try(t.Context(), w); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}
