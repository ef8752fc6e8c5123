//go:build upstream

package upstream

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

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

	// Share is that tests share a server and must not run at once.
	Share bool
}

// all runs all tests, of which listed are in known.txt and expected have to pass.
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
	limits := map[string]time.Duration{}
	for name, r := range all {
		if r.state == failed {
			limits[name] = 90 * time.Second
		}
	}
	for _, name := range expected {
		if all[name].state != passed { // or the process ended before it
			limits[name] = 90 * time.Second
		}
	}
	for _, name := range listed { // some of them would hang
		limits[name] = 20 * time.Second
	}
	var mu sync.Mutex
	var busy sync.WaitGroup
	free := make(chan struct{}, 2)
	if r.Share {
		free = make(chan struct{}, 1)
	}
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
	out, err := command(limit+10*time.Second, p.dir, p.env, p.path, "-test.short", "-test.v=test2json", "-test.run", exactly(name), "-test.timeout", limit.String())
	got := readTests(out)[name]
	if err != nil {
		got.state = failed
	}
	got.said = short(out)
	return got
}

func short(out []byte) string { return string(out[:min(len(out), 4000)]) }

// verbose runs the short versions of all tests but those of skip in one process. It says
// whether the process came to its end.
func verbose(p program, skip []string) (all map[string]result, ended error) {
	args := []string{"-test.short", "-test.v=test2json", "-test.timeout", "4m"}
	if len(skip) > 0 {
		args = append(args, "-test.skip", exactly(skip...))
	}
	out, err := command(5*time.Minute, p.dir, p.env, p.path, args...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 { // of a test that fails
		err = nil
	}
	return readTests(out), err
}

// testsTogether are the tests of go test in one process.
func testsTogether(t *testing.T, p program, skip []string) map[string]result {
	all := map[string]result{}
	ran, _ := verbose(p, skip)
	for _, name := range names(t, p) {
		all[name] = ran[name]
	}
	return all
}

// subtestsTogether are the subtests, without their own, of a program that has one test. What a
// process does not come to cannot be known, so it has to come to its end.
func subtestsTogether(t *testing.T, p program, skip []string) map[string]result {
	all, err := verbose(p, skip)
	if err != nil {
		t.Errorf("not all tests have run: %v", err)
	}
	maps.DeleteFunc(all, func(name string, _ result) bool { return strings.Count(name, "/") != 1 })
	return all
}

// specs runs the specs of ginkgo in some files, but those whose names begin with one of without.
func specs(suite string, files, without []string) runner {
	args := []string{"-test.run=^TestGinkgoSuite$", "-ginkgo.seed=1"}
	for _, f := range files {
		args = append(args, "-ginkgo.focus-file=^.*/"+regexp.QuoteMeta(f)+"$")
	}
	for _, name := range without {
		args = append(args, "-ginkgo.skip=^"+regexp.QuoteMeta(suite+" "+name))
	}
	run := func(t *testing.T, p program, limit time.Duration, more ...string) (map[string]result, error) {
		file := filepath.Join(t.TempDir(), "report.json")
		more = append(more, "-ginkgo.json-report="+file, "-ginkgo.timeout="+limit.String())
		out, _ := command(limit+20*time.Second, p.dir, p.env, p.path, slices.Concat(args, more)...)
		report, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("ginkgo left no report: %w\n%s", err, short(out))
		}
		return readSpecs(report)
	}
	return runner{
		Share: true,
		Together: func(t *testing.T, p program, skip []string) map[string]result {
			var more []string
			if len(skip) > 0 {
				more = append(more, "-ginkgo.skip="+patternOf(suite, skip...))
			}
			all, err := run(t, p, 2*time.Minute, more...)
			if err != nil {
				t.Error(err)
			}
			return all
		},
		Alone: func(t *testing.T, p program, name string, limit time.Duration) result {
			all, err := run(t, p, limit, "-ginkgo.focus="+patternOf(suite, name))
			if err != nil {
				return result{said: err.Error()}
			}
			return all[name]
		},
	}
}
