package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab/flaky"
	"github.com/gabion-go/gabion/policy"
)

// shortOutage is over in a few seconds.
func shortOutage(t *testing.T) *flaky.Plan {
	t.Helper()
	p, _, err := loadOutage("testdata/short.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// One short run, looked at from all sides. Nothing here depends on how fast the
// machine is: one that is too busy starts fewer calls, and the report says so.
func TestRunAsJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), Command(), []string{"--plan", "testdata/short.yaml", "--seed", "3", "--json", "--ledgers", dir}, &stdout, &stderr)
	if code != cli.ExitOK || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr: %s", code, &stderr)
	}
	var r Report
	in := json.NewDecoder(&stdout)
	if err := in.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if in.More() {
		t.Error("more than one object on stdout")
	}
	if r.Seed != 3 || r.Seconds != 7 || r.Interrupted || len(r.Clients) != 4 || len(r.Phases) != 4 {
		t.Fatalf("got %+v", r)
	}
	plan, _ := planOf(shortOutage(t))
	calls := len(Orders(3, plan.Busy()))
	busy := r.LateP99 > lateEnough || r.Left > 0
	for i, name := range []string{"loop", "keyed loop", "library", "gabion"} {
		c := r.Clients[i]
		if c.Name != name || c.Calls > calls || c.Calls < calls && !busy {
			t.Errorf("client %d is %s with %d calls, want %s with %d", i, c.Name, c.Calls, name, calls)
		}
		addsUp(t, c)
		agrees(t, c, dir)
	}
	if g := r.Clients[3]; g.DoubleCharges != 0 || g.ChargedAndDenied != 0 {
		t.Errorf("gabion charged %d orders twice and denied %d charges", g.DoubleCharges, g.ChargedAndDenied)
	}
}

// addsUp checks a client's figures against each other.
func addsUp(t *testing.T, c ClientReport) {
	t.Helper()
	ended, calls, good, attempts := c.SucceededInTime+c.SucceededLate, 0, 0, 0
	for _, n := range c.Reasons {
		ended += n
	}
	for _, p := range c.Phases {
		calls, good, attempts = calls+p.Calls, good+p.SucceededInTime, attempts+p.Attempts
	}
	if ended != c.Calls || calls != c.Calls || good != c.SucceededInTime || attempts != c.Attempts {
		t.Errorf("%s does not add up: %+v", c.Name, c)
	}
	if c.ToldNotCharged > 0 || c.P50 > c.P99 || c.Recovered != (c.RecoveryS >= 0) {
		t.Errorf("%s contradicts itself: %+v", c.Name, c)
	}
}

// agrees counts double charges once more, with other means.
func agrees(t *testing.T, c ClientReport, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "run-*", c.Name+".ledger"))
	if err != nil || len(files) != 1 {
		t.Fatalf("ledgers of %s: %v, %v", c.Name, files, err)
	}
	ledger, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	doubles, extra := 0, 0
	for _, name := range regexp.MustCompile(`"order":"order-\d{6}"`).FindAllString(string(ledger), -1) {
		times[name]++
	}
	for _, n := range times {
		if n > 1 {
			doubles, extra = doubles+1, extra+n-1
		}
	}
	if doubles != c.DoubleCharges || extra != c.ExtraCharges {
		t.Errorf("%s: the ledger has %d orders, %d doubles and %d too many; the report says %d and %d", c.Name, len(times), doubles, extra, c.DoubleCharges, c.ExtraCharges)
	}
}

func TestRunForPeople(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := cli.Run(t.Context(), Command(), []string{"--plan", "testdata/short.yaml"}, &stdout, &stderr); code != cli.ExitOK || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr: %s", code, &stderr)
	}
	got := stdout.String()
	for _, want := range []string{"every value is the default", "sends a key with each order", "go-retryablehttp", "lost answers", "after the outage", "orders charged twice or more", "Where gabion is behind", "What to try next", "--seed 2"} {
		if !strings.Contains(got, want) {
			t.Errorf("nothing says %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Error("a pipe got terminal codes")
	}
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > minWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Calls that did not come home in time come home while the report is made.
func TestCallsMayComeHomeLate(t *testing.T) {
	t.Parallel()
	st, err := raise(t.TempDir(), Settings{Outage: shortOutage(t)})
	if err != nil {
		t.Fatal(err)
	}
	var late sync.WaitGroup
	for _, sd := range st.sides {
		late.Go(func() {
			for range 100 { // not told when the report is done: that would order the two
				sd.settle(record{order: st.orders[0], took: time.Minute})
				time.Sleep(time.Millisecond)
			}
		})
	}
	report, err := st.strike(t.Context())
	late.Wait()
	if err != nil || len(report.lines) != len(st.sides) {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestInterruptedRunReportsWhatItSaw(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer cancel(); charged(ctx, dir) }()
	var stdout, stderr bytes.Buffer
	code := cli.Run(ctx, Command(), []string{"--json", "--ledgers", dir}, &stdout, &stderr)
	var r Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if code != cli.ExitInterrupted || !r.Interrupted || r.Clients[0].Calls == 0 || r.Clients[0].Calls != r.Clients[3].Calls && r.Left == 0 {
		t.Errorf("exit code %d, %+v", code, r)
	}
}

// charged returns when something is in a ledger, or ctx ends.
func charged(ctx context.Context, dir string) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		files, _ := filepath.Glob(filepath.Join(dir, "run-*", "*.ledger"))
		for _, name := range files {
			if f, err := os.Stat(name); err == nil && f.Size() > 0 {
				return
			}
		}
	}
}

func TestJSONHasThePromisedFields(t *testing.T) {
	text, err := json.Marshal(Report{Clients: []ClientReport{{}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"seed", "clients", "name", "calls", "succeeded_in_time", "amplification_during_fault", "double_charges", "p50_ms", "p99_ms", "recovery_s", "retry_tail_s"} {
		if !bytes.Contains(text, []byte(`"`+field+`":`)) {
			t.Errorf("no %s in %s", field, text)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		fact string
		args string
		ok   bool
	}{
		{"nothing is fine", "", true},
		{"everything", "--plan=free-failures --seed=7 --json --config x --ledgers y --into z --picture p", true},
		{"a plan of the demo's own is printed", "--print-plan --plan free-failures", true},
		{"and no other", "--print-plan --plan error-storm", false},
		{"not a number", "--seed ten", false},
		{"seeds are not negative", "--seed -1", false},
		{"unknown flag", "--paln x", false},
		{"words", "now", false},
		{"no file", "--config", false},
	} {
		req := &request{}
		asked := req.command(func(c *cobra.Command, words []string) int {
			if err := req.check(words); err != nil {
				return cli.Wrongly(c, err.Error())
			}
			return cli.ExitOK
		})
		var out bytes.Buffer
		if code := cli.Run(t.Context(), asked, strings.Fields(c.args), &out, &out); (code == cli.ExitOK) != c.ok || code != cli.ExitOK && code != cli.ExitUsage {
			t.Errorf("%s: got %d, %s", c.fact, code, &out)
		}
	}
}

func TestBadFilesStartNothing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		fact, path, says string
		code             int
	}{
		{"no such file", filepath.Join(dir, "none"), "no such file", cli.ExitUsage},
		{"a folder", dir, "directory", cli.ExitUsage},
		{"a mistake", write("a.yaml", "version: 1\ndependencies:\n  payments: {retry: {atempts: 3}}\n"), "did you mean attempts?", cli.ExitFindings},
		{"an impossible policy", write("b.yaml", "version: 1\ndependencies:\n  payments: {timeout: {call: 1s, attempt: 2s}}\n"), "payments", cli.ExitFindings},
		{"no dependency chosen", write("c.yaml", "version: 1\ndependencies: {a: {}, b: {}}\n"), "a, b", cli.ExitFindings},
		{"no dependency at all", write("d.yaml", "version: 1\n"), "", cli.ExitFindings},
	} {
		var stdout, stderr bytes.Buffer
		if code := cli.Run(t.Context(), Command(), []string{"--config", c.path}, &stdout, &stderr); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.fact, code, c.code)
		}
		if stdout.Len() > 0 || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%s: stdout %q, stderr %q", c.fact, &stdout, &stderr)
		}
	}
}

func TestOwnPolicyIsFoundAndItsDeviationsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my.yaml")
	if err := os.WriteFile(path, []byte("version: 1\ndependencies:\n  bank: {retry: {attempts: 2}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, code, err := loadRules(path)
	if err != nil || code != cli.ExitOK || got.policy.Retry.Attempts != 2 {
		t.Fatalf("got %+v, %d, %v", got, code, err)
	}
	if !strings.Contains(got.text, "retry.attempts") || strings.Contains(got.text, "retry.backoff") || !strings.HasPrefix(got.from, "bank in ") {
		t.Errorf("from %s:\n%s", got.from, got.text)
	}
}

// The comparison is fair: every client that can send a key sends one, and gabion runs with its
// defaults.
func TestClientsDifferInWhatTheTableSays(t *testing.T) {
	rules, _, err := loadRules("")
	if err != nil || !reflect.DeepEqual(rules.policy, policy.Policy{}) {
		t.Errorf("gabion runs with %+v, %v", rules.policy, err)
	}
	mine := newGabion("", newPayments(Settings{Policy: rules.policy}))
	for _, c := range []struct {
		client client
		keyed  bool
		setup  string
	}{
		{newHand(""), false, "by hand"}, {newKeyedHand(""), true, "by hand"},
		{newLibrary(""), true, "its README"}, {mine, true, "defaults"},
	} {
		if c.client.keyed != c.keyed || c.client.setup != c.setup {
			t.Errorf("%s: keyed %v, set up %s", c.client.name, c.client.keyed, c.client.setup)
		}
	}
}

func TestPictureFitsATerminal(t *testing.T) {
	st, err := raise(t.TempDir(), Settings{Seed: 1, Outage: outageOf(t, "service: {time: 1ms}\nfaults: [{kind: errors, at: 10s, for: 15s}, {kind: lost_answers, at: 20s, for: 5s}]")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.closeAll(); err != nil {
			t.Error(err)
		}
	}()
	for _, s := range []time.Duration{0, 8, 12, 16, 20, 25, 30, 39, 50} {
		st.start = time.Now().Add(-s * time.Second)
		for _, line := range st.picture(false) {
			if n := utf8.RuneCountInString(line); n >= minWidth {
				t.Errorf("%d columns at %d s: %s", n, s, line)
			}
		}
	}
}
