package explaincmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

const policies = `version: 1
defaults:
  timeout: {call: 12s}
dependencies:
  bank:
    safe: true
    retry:
      attempts: 3
      backoff: {kind: constant, base: 100ms}
      budget: {shape: window, ratio: 10%, floor: 0.2/s}
    breaker:
      consecutive: 4
      open: 2s
      open_jitter: off
`

// files writes a policy file, and a recording of a program that goes by it.
func files(t *testing.T) (recording, policyFile string) {
	t.Helper()
	dir := t.TempDir()
	recording, policyFile = filepath.Join(dir, "shop.jsonl"), filepath.Join(dir, "gabion.yaml")
	if err := os.WriteFile(policyFile, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	synctest.Test(t, func(t *testing.T) { outage(t, &text, policyFile) })
	if err := os.WriteFile(recording, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return recording, policyFile
}

// outage calls a bank that works, and then does not: call 1 of the recording succeeds,
// the next ones are retried, and the last is refused.
func outage(t *testing.T, w io.Writer, policyFile string) {
	f, err := config.Load(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	observer := record.NewWriter(renumbered{w, new(uint64)}, record.WithPolicyFile(policyFile), func(o *recording.Options) { o.Header.Program = recording.Program{Name: "shop", PID: 7} },
		record.WithPolicies(func(name string) (policy.Policy, bool) { p, ok := f.Policies[name]; return p, ok }))
	d := gabion.New("bank", f.Policies["bank"], gabion.WithObserver(observer))
	down := func(context.Context) error {
		time.Sleep(10 * time.Millisecond)
		return classify.Transient(errors.New("down"))
	}
	once := true
	works := []func(context.Context) error{
		func(context.Context) error { return nil },
		func(ctx context.Context) error {
			if once {
				once = false
				return down(ctx)
			}
			return nil
		}, down, down, down, down,
	}
	for _, work := range works {
		_ = d.Run(t.Context(), work) // that it fails is what is recorded
		time.Sleep(time.Second / 2)
	}
}

// renumbered makes the calls of a recording begin at 1: those of a process go on.
type renumbered struct {
	io.Writer
	first *uint64
}

func (r renumbered) Write(p []byte) (int, error) {
	var out []byte
	for line := range bytes.Lines(p) {
		var v struct{ Call uint64 }
		if err := json.Unmarshal(line, &v); err != nil {
			return 0, err
		}
		if v.Call != 0 {
			if *r.first == 0 {
				*r.first = v.Call
			}
			line = bytes.Replace(line, fmt.Appendf(nil, `"call":%d`, v.Call), fmt.Appendf(nil, `"call":%d`, v.Call-*r.first+1), 1)
		}
		out = append(out, line...)
	}
	_, err := r.Writer.Write(out)
	return len(p), err
}

// ask runs the command.
func ask(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	r := &request{stdin: strings.NewReader(stdin)}
	code = cli.Run(context.Background(), r.command(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestACallIsExplainedWithTheLinesOfItsPolicy(t *testing.T) {
	recording, policyFile := files(t)
	for call, want := range map[string]string{
		"2": `call 2 of bank, by shop (pid 7), began 2000-01-01T00:00:00.500Z

  +0.000s  00:00:00.500  attempt 1 sent, it may take 4s, the call has 12s left
                           timeout.attempt: 4s (default)
  +0.010s  00:00:00.510  attempt 1 failed after 10ms: server, it may have
                         happened
  +0.010s  00:00:00.510  waits 100ms before attempt 2: the backoff
                           retry.backoff.base: 100ms (FILE:9)
  +0.110s  00:00:00.610  attempt 2 sent, because of server, it may take 4s, the
                         call has 11.89s left
                           timeout.attempt: 4s (default)
  +0.110s  00:00:00.610  attempt 2 succeeded in 0s
  +0.110s  00:00:00.610  the call succeeded after 2 attempts in 110ms
`,
		"4": `call 4 of bank, by shop (pid 7), began 2000-01-01T00:00:01.730Z

  +0.000s  00:00:01.730  attempt 1 sent, it may take 12s since no other can
                         follow, the call has 12s left
                           timeout.last: off (default)
  +0.010s  00:00:01.740  attempt 1 failed after 10ms: server, it may have
                         happened
  +0.010s  00:00:01.740  the call ended: budget_exhausted (4 calls, 2 re-sends,
                         2 allowed), 1 attempt in 10ms, it may have happened
                           retry.budget.ratio: 10% (FILE:10)

budget_exhausted: the retry budget is spent
more: gabion explain budget_exhausted
`,
		"1.5": `call 5 of bank, by shop (pid 7), began 2000-01-01T00:00:02.240Z

  +0.000s  00:00:02.240  attempt 1 sent, it may take 12s since no other can
                         follow, the call has 12s left
                           timeout.last: off (default)
  +0.010s  00:00:02.250  attempt 1 failed after 10ms: server, it may have
                         happened
* +0.010s  00:00:02.250  breaker closed → open: 4 failures in a row, for 2s
                           breaker.consecutive: 4 (FILE:12)
  +0.010s  00:00:02.250  the call ended: breaker_open, 1 attempt in 10ms, it may
                         have happened
                           breaker.open: 2s (FILE:13)

* happened to the dependency, not to this call alone

breaker_open: refused: the breaker is open
more: gabion explain breaker_open
`,
		"6": `call 6 of bank, by shop (pid 7), began 2000-01-01T00:00:02.750Z

* -0.500s  00:00:02.250  breaker closed → open: 4 failures in a row, for 2s
                           breaker.consecutive: 4 (FILE:12)
  +0.000s  00:00:02.750  attempt 1 not made: breaker_open, come back in 1.5s
                           breaker.open: 2s (FILE:13)
  +0.000s  00:00:02.750  the call ended: breaker_open, nothing sent in 0s, it
                         has not happened
                           breaker.open: 2s (FILE:13)

* happened to the dependency, not to this call alone

breaker_open: refused: the breaker is open
more: gabion explain breaker_open
`,
	} {
		code, out, stderr := ask("", "--call", call, recording)
		if out = strings.ReplaceAll(out, policyFile, "FILE"); code != cli.ExitOK || stderr != "" || out != want {
			t.Errorf("call %s: exit code %d, %q\n%s\nwant\n%s", call, code, stderr, out, want)
		}
	}
}

func TestARecordingListsTheCallsThatAreWorthALook(t *testing.T) {
	recording, _ := files(t)
	const want = `shop (pid 7), began 2000-01-01T00:00:00Z
6 calls: 4 failed, 2 retried, 0 hedged

FAILED  DEPENDENCY  REASON            FIRST CALL  LAST CALL
2       bank        breaker_open      5           6
2       bank        budget_exhausted  3           4

FAILED  DEPENDENCY  BEGAN                     TOOK   ATTEMPTS  END
3       bank        2000-01-01 00:00:01.110Z  120ms  2         budget_exhausted
4       bank        2000-01-01 00:00:01.730Z  10ms   1         budget_exhausted
5       bank        2000-01-01 00:00:02.240Z  10ms   1         breaker_open
6       bank        2000-01-01 00:00:02.750Z  0s     0         breaker_open
`
	code, out, stderr := ask("", recording)
	if code != cli.ExitOK || stderr != "" || !strings.HasPrefix(out, want) {
		t.Errorf("exit code %d, %q\n%s\nwant\n%s", code, stderr, out, want)
	}
	for _, head := range []string{"\nRETRIED ", "\nSLOWEST "} {
		if !strings.Contains(out, head) {
			t.Errorf("%q is missing", head)
		}
	}
}

// What stands in the file now need not be what was in force then.
func TestTheReaderIsToldWhereAPolicyIsNotTheOneInForce(t *testing.T) {
	recording, policyFile := files(t)
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	_, events, _ := strings.Cut(string(text), "\n") // without a header
	_, events, _ = strings.Cut(events, "\n")        // and without an origin
	instance := strings.ReplaceAll(string(text), `"bank"`, `"bank/eu"`)
	own := strings.Replace(string(text), `"policy":`, `"settings":[{"path":"retry.backoff.base","value":"7s","source":"gabion.yaml:77"}],"policy":`, 1)
	other := strings.Replace(policies, "attempts: 3", "attempts: 4", 1)
	for fact, c := range map[string]struct {
		args []string
		code int
		out  string // contained in stdout and stderr
		not  string
	}{
		"it is":                 {[]string{recording, "--policy", policyFile}, cli.ExitOK, "retry.backoff.base: 100ms (", "note:"},
		"it was changed":        {[]string{recording, "--policy", write("new.yaml", other)}, cli.ExitOK, "note: another policy was in force then", "\x00"},
		"it has mistakes":       {[]string{recording, "--policy", write("bad.yaml", "version: 1\nx: 1\n")}, cli.ExitFindings, "bad.yaml:2", "retry.backoff"},
		"it is not there":       {[]string{recording, "--policy", "/nowhere.yaml"}, cli.ExitFailure, "no such file", "retry.backoff"},
		"it has no such name":   {[]string{recording, "--policy", write("a.yaml", "version: 1\ndependencies: {mail: {}}\n")}, cli.ExitOK, `no dependency "bank"; it has mail`, "(default)"},
		"no file is named":      {[]string{write("bare.jsonl", events)}, cli.ExitOK, "the settings are not known", "(default)"},
		"its hash is unknown":   {[]string{write("bare.jsonl", events), "--policy", policyFile}, cli.ExitOK, "does not say which policy was in force", "\x00"},
		"the named one is gone": {[]string{write("moved.jsonl", strings.ReplaceAll(string(text), policyFile, "/nowhere.yaml"))}, cli.ExitOK, "/nowhere.yaml is not here", "(default)"},
		"the recording has it":  {[]string{write("own.jsonl", own)}, cli.ExitOK, "retry.backoff.base: 7s (gabion.yaml:77)", "note:"},
		"the caller knows best": {[]string{write("own.jsonl", own), "--policy", policyFile}, cli.ExitOK, "retry.backoff.base: 100ms (", "7s"},
		"it is an instance's":   {[]string{write("instance.jsonl", instance)}, cli.ExitOK, "retry.backoff.base: 100ms (", "note:"},
	} {
		code, out, stderr := ask("", append(c.args, "--call", "2")...)
		if all := strings.Join(strings.Fields(out+stderr), " "); code != c.code || !strings.Contains(all, c.out) || strings.Contains(all, c.not) {
			t.Errorf("%s: exit code %d\n%s\n%s", fact, code, out, stderr)
		}
	}
}

func TestWhatCanNotBeReadIsSaid(t *testing.T) {
	recording, _ := files(t)
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	for fact, c := range map[string]struct {
		stdin, args    string
		code           int
		stdout, stderr string
	}{
		"a recording that was cut off is read to the cut": {whole[:len(whole)-9], "- --call 5", cli.ExitOK, "call 5 of bank", "the recording was cut off here; what is whole was read"},
		"so is its list":                        {whole[:len(whole)-9], "-", cli.ExitOK, "5 calls: 3 failed, 2 retried, 0 hedged, 1 more without an end", "stdin: line 26: the recording was cut off here"},
		"a call that was cut off":               {whole[:strings.LastIndex(whole, `{"at"`)], "- --call 6", cli.ExitOK, "does not have the end of this call", ""},
		"damage is a mistake of the file":       {strings.Replace(whole, `"kind":"returned","dependency":"bank","call":5`, `?`, 1) + whole, "- --call 2", cli.ExitFindings, "call 2 of bank", "stdin: line 24: "},
		"what is no recording":                  {"hello\n", "-", cli.ExitFindings, "", "stdin: line 1: "},
		"nothing":                               {"", "-", cli.ExitFindings, "", "stdin is empty: it has no events. Is the writer attached"},
		"nothing, for programs":                 {"", "- --json", cli.ExitFindings, "", "stdin is empty"},
		"no call in nothing":                    {"", "- --call 2", cli.ExitFindings, "", "stdin is empty: it has no events."},
		"a header alone":                        {whole[:strings.Index(whole, "\n")+1], "-", cli.ExitFindings, "", "stdin is empty: it has no events."},
		"half a header":                         {whole[:20], "-", cli.ExitFindings, "", "stdin: line 1: the recording was cut off here, before its first event\x00"},
		"one call":                              {cut(t, whole, `"call":2`), "-", cli.ExitOK, "\n1 call: 0 failed", ""},
		"what a later version wrote":            {`{"kind":"header","version":2}` + "\n", "-", cli.ExitFindings, "", "a later version of gabion may have written it: a newer gabion command reads it\x00"},
		"what a later version added":            {whole + `{"at":1,"kind":"pondered"}` + "\n", "- --call 5", cli.ExitFindings, "call 5 of bank", "a newer gabion command reads it; what stands before it was read\x00"},
		"what is no recording, and not read":    {"hello\n", "- --call 2", cli.ExitFindings, "", "looking for beginning of value: is it a recording of gabion's?\x00"},
		"a call that may be behind the cut":     {whole[:len(whole)-9], "- --call 7", cli.ExitUsage, "", "its calls are 1 to 6; gabion explain stdin lists those worth a look. The recording was cut off: the call may have been in what is lost"},
		"a call whose end is behind the cut":    {whole[:len(whole)-9], "- --call 6", cli.ExitOK, "note: the recording was cut off", "cut off here"},
		"no such call":                          {whole, "- --call 9", cli.ExitUsage, "", "its calls are 1 to 6"},
		"no such run":                           {whole, "- --call 2.1", cli.ExitUsage, "", "has no run 2: it has 1 run; "},
		"no number":                             {whole, "- --call x", cli.ExitUsage, "", `"x" is no call`},
		"a call of the second run":              {whole + whole, "- --call 2.6", cli.ExitOK, "call 2.6 of bank", ""},
		"no file":                               {"", "--call 1", cli.ExitUsage, "", "no recording is named"},
		"a file that is not there":              {"", "/nowhere.jsonl", cli.ExitFailure, "", "no such file"},
		"two words":                             {"", "a b", cli.ExitUsage, "", `"b" is not expected`},
		"a policy without a call":               {"", "- --policy x", cli.ExitUsage, "", "--policy is for one call"},
		"no such flag":                          {"", "--cal 3", cli.ExitUsage, "", "-cal"},
		"a slip":                                {"", "budget_exhaust", cli.ExitUsage, "", "did you mean budget_exhausted?"},
		"nonsense":                              {"", "xyzzy", cli.ExitUsage, "", "gabion explain lists the reasons"},
		"help":                                  {"", "-h", cli.ExitOK, "usage: gabion explain", ""},
		"a directory":                           {"", "/", cli.ExitFailure, "", "/ is a directory: name a recording in it"},
		"a file in a format that is not a line": {strings.Repeat("x", 2<<20), "-", cli.ExitFindings, "", "stdin: line 1: "},
	} {
		code, out, stderr := ask(c.stdin, strings.Fields(c.args)...)
		stderr = strings.Join(strings.Fields(stderr), " ") + "\x00" // marks the end
		c.stderr = cmp.Or(c.stderr, "\x00")
		if code != c.code || !strings.Contains(out, c.stdout) || !strings.Contains(stderr, c.stderr) || c.stderr == "\x00" && stderr != "\x00" || c.stdout == "" && out != "" {
			t.Errorf("%s: exit code %d, want %d\n%s\n%s", fact, code, c.code, out, stderr)
		}
	}
}

// cut is a recording up to a text, and without the line that it is in.
func cut(t *testing.T, recording, text string) string {
	t.Helper()
	at := strings.Index(recording, text)
	if at < 0 {
		t.Fatalf("no %s in\n%s", text, recording)
	}
	return recording[:strings.LastIndex(recording[:at], "\n")+1]
}

// The page of each reason is part of the program, and says what to do.
func TestEveryReasonHasAPage(t *testing.T) {
	_, list, _ := ask("")
	for _, r := range policy.Reasons() {
		code, out, stderr := ask("", r.String())
		if code != cli.ExitOK || stderr != "" || !strings.Contains(out, "What to do: ") || strings.ContainsAny(out, "*#") || strings.Contains(out, "](") {
			t.Errorf("%s: exit code %d, %q\n%s", r, code, stderr, out)
		}
		if !strings.Contains("\n"+list, "\n"+r.String()+" ") {
			t.Errorf("%s is not listed", r)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(line); n > 81 {
				t.Errorf("%s: a line of %d columns: %s", r, n-1, line)
			}
		}
	}
}

// Programs that read the JSON find the same keys for ever.
func TestJSONKeepsItsKeys(t *testing.T) {
	recording, _ := files(t)
	for args, want := range map[string]string{
		"":                       "version reasons messages",
		"breaker_open":           "version reason means refused setting text",
		recording:                "version file runs calls open failed retried hedged lost ends look",
		recording + " --call 2":  "version file call dependency program began at ended reason steps notes",
		recording + " --call=5 ": "version file call dependency program began at ended reason steps notes",
	} {
		code, out, stderr := ask("", append(strings.Fields(args), "--json")...)
		var got map[string]any
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitOK || stderr != "" || got["version"] != 1.0 {
			t.Fatalf("%s: exit code %d, %v, %s\n%s", args, code, err, stderr, out)
		}
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, slices.Sorted(slices.Values(strings.Fields(want)))) {
			t.Errorf("%s: keys %v, want %s", args, keys, want)
		}
	}
}

// However long a recording is, what is kept of it is bounded.
func TestALongRecordingTakesNoMoreMemory(t *testing.T) {
	o := newOverview("x")
	s := newStory(recording.ID{Call: 1})
	for i := range 120_000 {
		e := recording.Entry{Run: 1, Line: i + 1, Event: policy.Event{Kind: policy.KindAttemptSent, Dependency: "a", Call: uint64(i + 2)}}
		o.take(&e)
		s.take(&e)
		e.Event = policy.Event{Kind: policy.KindBreakerMoved, Dependency: fmt.Sprint(i)}
		s.take(&e)
		e.Event = policy.Event{Kind: policy.KindReturned, Dependency: fmt.Sprint(i), Call: uint64(i + 500_000), Reason: policy.Canceled}
		o.take(&e)
	}
	if len(o.open) > maxOpen || len(o.ends) > maxEnds || len(o.Look[0].Calls) > shownCalls || len(s.known) > maxKnown || len(s.aside) > 2*recent {
		t.Errorf("kept: %d open calls, %d ends, %d calls, %d states, %d events", len(o.open), len(o.ends), len(o.Look[0].Calls), len(s.known), len(s.aside))
	}
	if o.Failed != 120_000 {
		t.Errorf("%d calls failed", o.Failed)
	}
}
