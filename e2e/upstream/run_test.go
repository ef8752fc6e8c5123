//go:build upstream

package upstream

import (
	"maps"
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
