//go:build upstream

package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// A result is what became of a test.
type result struct {
	passed bool
	said   string
}

// A program is the compiled tests of a suite.
type program struct {
	path, dir string
	env       []string
}

// A runner runs the tests of a program, at first all in one process. What fails there, or has no
// result because the process ended, runs again alone. So one that panics or hangs says nothing
// about the others. What known.txt lists only runs alone.
type runner struct {
	// Together runs all tests but those of skip. Nil means that every test runs alone.
	Together func(t *testing.T, p program, skip []string) map[string]result

	// Alone runs one. Nil means that it is a test of go test.
	Alone func(t *testing.T, p program, name string, limit time.Duration) result
}

// all runs all tests, of which listed are in known.txt and expected are there.
func (r runner) all(t *testing.T, p program, listed, expected []string) map[string]result {
	t.Helper()
	alone := r.Alone
	if alone == nil {
		alone = oneTest
	}
	all := map[string]result{}
	if r.Together != nil {
		all = r.Together(t, p, listed)
	} else {
		for _, name := range names(t, p) {
			all[name] = result{}
		}
	}
	for _, name := range expected {
		if _, ok := all[name]; !ok { // the process ended before it
			all[name] = result{}
		}
	}
	limits := map[string]time.Duration{}
	for name, r := range all {
		if !r.passed {
			limits[name] = 90 * time.Second
		}
	}
	for _, name := range listed { // some of them would hang
		limits[name] = 20 * time.Second
	}
	var mu sync.Mutex
	var busy sync.WaitGroup
	free := make(chan struct{}, 2)
	for name, limit := range limits {
		free <- struct{}{}
		busy.Go(func() {
			defer func() { <-free }()
			got := alone(t, p, name, limit)
			mu.Lock()
			defer mu.Unlock()
			all[name] = got
		})
	}
	busy.Wait()
	return all
}

// names are the tests of a program.
func names(t *testing.T, p program) []string {
	t.Helper()
	list, err := command(time.Minute, p.dir, p.env, p.path, "-test.list", "^Test")
	if err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	return strings.Fields(string(list))
}

func oneTest(_ *testing.T, p program, name string, limit time.Duration) result {
	out, err := command(limit+10*time.Second, p.dir, p.env, p.path, "-test.short", "-test.run", exactly(name), "-test.timeout", limit.String())
	return result{err == nil, short(out)}
}

func short(out []byte) string { return string(out[:min(len(out), 4000)]) }

// exactly matches tests and subtests by their names.
func exactly(names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, "^"+strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^")+"$")
	}
	return strings.Join(all, "|")
}

// outcome is how go test -v tells what became of a test.
var outcome = regexp.MustCompile(`(?m)^ *\x16?--- (PASS|FAIL|SKIP): (\S+)`)

// verbose runs the short versions of all tests but those of skip in one process.
func verbose(p program, skip []string) (all map[string]result) {
	args := []string{"-test.short", "-test.v=test2json", "-test.timeout", "3m"}
	if len(skip) > 0 {
		args = append(args, "-test.skip", exactly(skip...))
	}
	out, _ := command(4*time.Minute, p.dir, p.env, p.path, args...)
	all = map[string]result{}
	for _, m := range outcome.FindAllStringSubmatch(string(out), -1) {
		all[m[2]] = result{passed: m[1] != "FAIL"}
	}
	return all
}

// testsTogether are the tests of go test in one process.
func testsTogether(t *testing.T, p program, skip []string) map[string]result {
	ran, all := verbose(p, skip), map[string]result{}
	for _, name := range names(t, p) {
		all[name] = ran[name]
	}
	return all
}

// subtestsTogether are the subtests, without their own, of a program that has one test.
func subtestsTogether(t *testing.T, p program, skip []string) map[string]result {
	all := verbose(p, skip)
	maps.DeleteFunc(all, func(name string, _ result) bool { return strings.Count(name, "/") != 1 })
	return all
}

// specs runs the specs of ginkgo in some files.
func specs(files ...string) runner {
	var args []string
	for _, f := range files {
		args = append(args, "-ginkgo.focus-file=^.*/"+regexp.QuoteMeta(f)+"$")
	}
	return runner{
		Together: func(t *testing.T, p program, skip []string) map[string]result {
			more := args
			if len(skip) > 0 {
				more = append(more[:len(more):len(more)], "-ginkgo.skip="+patternOf(skip...))
			}
			return ginkgo(t, p, 4*time.Minute, more)
		},
		Alone: func(t *testing.T, p program, name string, limit time.Duration) result {
			return ginkgo(t, p, limit, append(args[:len(args):len(args)], "-ginkgo.focus="+patternOf(name)))[name]
		},
	}
}

// patternOf matches specs by their whole text.
func patternOf(names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, strings.ReplaceAll(regexp.QuoteMeta(name), "_", "[ _]"))
	}
	return "^(" + strings.Join(all, "|") + ")$"
}

// ginkgo runs specs and reads ginkgo's report. A spec that is skipped has no result. Of
// specs of the same text all have to pass.
func ginkgo(t *testing.T, p program, limit time.Duration, args []string) map[string]result {
	file := filepath.Join(t.TempDir(), "report.json")
	args = append([]string{"-test.run=^TestGinkgoSuite$", "-ginkgo.json-report=" + file, "-ginkgo.timeout=" + limit.String()}, args...)
	out, _ := command(limit+20*time.Second, p.dir, p.env, p.path, args...)
	var report []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
			Failure                           struct{ Message string }
		}
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil || len(report) == 0 {
		t.Errorf("ginkgo left no report: %v\n%s", err, short(out))
		return nil
	}
	all := map[string]result{}
	for _, s := range report[0].SpecReports {
		if s.LeafNodeType != "It" || s.State == "skipped" || s.State == "pending" {
			continue
		}
		name := strings.ReplaceAll(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "), " ", "_")
		got := result{s.State == "passed", fmt.Sprintf("%s: %s", s.State, s.Failure.Message)}
		if old, ok := all[name]; !ok || old.passed {
			all[name] = got
		}
	}
	return all
}
