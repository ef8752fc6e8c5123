package lintcmd

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

func doctor(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = cli.Run(t.Context(), Doctor(), args, &out, &err)
	return code, out.String(), err.String()
}

// flat is a text without its line breaks.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

var errDown = classify.Transient(errors.New("down"))

// lives makes calls of a dependency with a policy, and returns their recording.
func lives(t *testing.T, p policy.Policy, settings []policy.Setting, live func(d *gabion.Dependency)) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "calls.jsonl")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	synctest.Test(t, func(t *testing.T) {
		w := record.NewWriter(f, record.WithSettings(func(string) []policy.Setting { return settings }),
			record.WithPolicies(func(string) (policy.Policy, bool) { return p, true }))
		live(gabion.New("stock", p, gabion.WithObserver(w)))
		synctest.Wait()
	})
	return name
}

// does makes calls one after the other, each of which takes some time.
func does(d *gabion.Dependency, n int, took time.Duration, err error) {
	for range n {
		_, _ = gabion.Do(context.Background(), d, func(ctx context.Context) (int, error) {
			select {
			case <-time.After(took):
				return 0, err
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		})
	}
}

func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "gabion.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// What a recording shows is held against the file, and the diff says what to write.
func TestARecordingIsHeldAgainstTheFile(t *testing.T) {
	for fact, c := range map[string]struct {
		file string
		live func(d *gabion.Dependency)
		says []string
		diff []string
		code int
	}{
		"a policy that fits": {"{}", func(d *gabion.Dependency) { does(d, 300, 300*time.Millisecond, nil); does(d, 10, 2*time.Second, nil) }, nil, nil, cli.ExitOK},
		"attempts are cut off": {
			"{timeout: {attempt: 100ms}, safe: true}",
			func(d *gabion.Dependency) { does(d, 400, 98*time.Millisecond, nil); does(d, 100, time.Second, nil) },
			[]string{"of the attempts (32 of 432) ran into their timeout", "can't be seen"},
			[]string{"-  stock: {timeout: {attempt: 100ms}", "+  stock: {timeout: {attempt: "}, cli.ExitFindings,
		},
		"the budget is used up": {
			"{safe: true, timeout: {attempt: 100ms}, retry: {backoff: {base: 1ms}, hold: off, budget: {ratio: 5%}}, breaker: off}",
			func(d *gabion.Dependency) { does(d, 300, time.Millisecond, errDown) },
			[]string{"the budget was used up: ", "the default"}, []string{"ratio: 30%"}, cli.ExitFindings,
		},
		"nothing may be repeated": {
			"{}", func(d *gabion.Dependency) {
				does(d, 1000, time.Millisecond, nil)
				does(d, 19, time.Millisecond, errDown)
			},
			[]string{"no call was ever repeated, and 19 of 19", "nothing is shortened: 1.9 % of the calls failed"}, nil, cli.ExitFindings,
		},
		"the breaker flaps": {
			"{breaker: {failure_rate: 20%, min_calls: 5, open: 1s}}",
			func(d *gabion.Dependency) {
				for range 6 {
					does(d, 40, 10*time.Millisecond, nil)
					does(d, 20, 10*time.Millisecond, errDown)
					time.Sleep(10 * time.Second)
				}
			},
			[]string{"it flaps"}, []string{"failure_rate: 95%", "min_calls: 30"}, cli.ExitFindings,
		},
		"far above what attempts need": {
			"{timeout: {attempt: 14s}}", func(d *gabion.Dependency) { does(d, 1000, 10*time.Millisecond, nil) },
			[]string{"p99 of 1000 attempts is between 5ms and 10ms (95 %), and timeout.attempt is 14s"}, []string{"timeout: {attempt: 7.5s}"}, cli.ExitOK,
		},
	} {
		t.Run(fact, func(t *testing.T) {
			text := "version: 1\ndependencies:\n  stock: " + c.file + "\n"
			file := written(t, text)
			parsed, err := config.Parse(file, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			calls := lives(t, parsed.Policies["stock"], nil, c.live)
			code, out, stderr := doctor(t, calls, "--config", file)
			if code != c.code || stderr != "" {
				t.Errorf("code %d, want %d; %s", code, c.code, stderr)
			}
			for _, want := range append(c.says, c.diff...) {
				if !strings.Contains(out, want) && !strings.Contains(flat(out), want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
			if c.diff == nil && strings.Contains(out, "+++") {
				t.Errorf("a change is proposed:\n%s", out)
			}
			if c.diff == nil {
				return
			}
			if _, _, stderr := doctor(t, calls, "--config", file, "--write"); !strings.Contains(stderr, "written: stock: ") {
				t.Error(stderr)
			}
			after, err := os.ReadFile(file)
			if err != nil || bytes.Equal(after, []byte(text)) {
				t.Errorf("%v\n%s", err, after)
			}
			if _, err := config.Parse(file, after); err != nil {
				t.Error(err)
			}
			if _, again, _ := doctor(t, calls, "--config", file); strings.Contains(again, "+++") {
				t.Errorf("more is proposed:\n%s", again)
			}
		})
	}
}

// A recording tells the settings that were in force, so no file is needed.
func TestARecordingTellsWhatWasInForce(t *testing.T) {
	p := policy.Policy{Timeout: policy.Timeout{Attempt: 14 * time.Second}}
	calls := lives(t, p, []policy.Setting{{Path: "timeout.attempt", Value: "14s", Source: "gabion.yaml:7"}, {Path: "retry.attempts", Value: "3", Source: "default"}},
		func(d *gabion.Dependency) { does(d, 1000, 10*time.Millisecond, nil) })
	_, out, _ := doctor(t, calls)
	if !strings.Contains(out, "-  \"stock\": {timeout: {attempt: 14s}}") {
		t.Error(out)
	}
	_, out, _ = doctor(t, calls, "--json")
	if !strings.Contains(out, `"version": 1`) || !strings.Contains(out, `"value": "7.5s"`) {
		t.Error(out)
	}
	if code, _, stderr := doctor(t, lives(t, p, nil, func(d *gabion.Dependency) { does(d, 1, time.Millisecond, nil) })); code != cli.ExitFailure || !strings.Contains(stderr, "name their file") {
		t.Error(code, stderr)
	}
}

// A file that has nothing of what was measured is not said to agree with it.
func TestWhatWasNotExaminedDoesNotAgree(t *testing.T) {
	calls := lives(t, policy.Policy{}, nil, func(d *gabion.Dependency) { does(d, 50, time.Millisecond, nil) })
	for _, how := range []string{"", "--json"} {
		args := []string{calls, "--config", written(t, "version: 1\ndependencies: {other: {}}\n")}
		if how != "" {
			args = append(args, how)
		}
		code, out, stderr := doctor(t, args...)
		if code != cli.ExitFailure || out != "" || !strings.Contains(stderr, "no file has what was measured: stock") {
			t.Errorf("%s: code %d, %s%s", how, code, out, stderr)
		}
	}
}

// A recording that was cut off is used up to the cut.
func TestACutRecordingIsUsedToTheCut(t *testing.T) {
	calls := lives(t, policy.Policy{}, nil, func(d *gabion.Dependency) { does(d, 50, time.Millisecond, nil) })
	whole, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	file := written(t, "version: 1\ndependencies: {stock: {}}\n")
	for _, cut := range []int{len(whole) - 7, len(whole) / 2, 40, 1, 0} {
		if err := os.WriteFile(calls, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, stderr := doctor(t, calls, "--config", file)
		if read := strings.Contains(out, "stock: "); read != (cut > 1000) || stderr == "" || code == cli.ExitUsage {
			t.Errorf("cut at %d of %d: code %d, %s%s", cut, len(whole), code, out, stderr)
		}
	}
}

// A living process is examined by its page.
func TestALivingProcessIsExamined(t *testing.T) {
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"stock": {Safe: true, Timeout: policy.Timeout{Attempt: 20 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	page := dashboard.New(dashboard.Config{Registry: registry})
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/debug/gabion/", page)
	server := httptest.NewServer(mux)
	defer server.Close()
	d, _ := registry.Get("stock")
	for range 200 {
		if _, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 0, nil }); err != nil {
			t.Fatal(err)
		}
	}
	code, out, stderr := doctor(t, server.URL+"/debug/gabion/")
	if code == cli.ExitFailure || !strings.Contains(out, "stock: 200 calls") || !strings.Contains(out, "100 % succeeded") {
		t.Errorf("code %d: %s%s", code, out, stderr)
	}
	for _, wrong := range []string{server.URL + "/nothing", server.URL + "/debug/gabion/api/v1/state", "http://127.0.0.1:1/"} {
		if code, out, stderr := doctor(t, wrong); code != cli.ExitFailure || stderr == "" || out != "" {
			t.Errorf("%s: code %d: %s%s", wrong, code, out, stderr)
		}
	}
}

func TestWhatIsCalledWronglyIsTold(t *testing.T) {
	for args, want := range map[string]string{
		"":                                       "no source is named",
		"a b":                                    `"b" is not expected`,
		"a --write":                              "--write needs --config",
		"nothing.jsonl":                          "no such file",
		".":                                      "is a directory",
		"doctor_test.go":                         "series of gabion",
		"../../../../examples/start/gabion.yaml": "gabion.yaml has policies, and nothing that was measured: a source is a recording",
		"a --nothing":                            "unknown flag: --nothing",
		"--dependency x ../":                     "is a directory",
	} {
		if code, _, stderr := doctor(t, strings.Fields(args)...); code < cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
}
