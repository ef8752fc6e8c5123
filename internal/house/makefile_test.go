package house

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// make test leaves the tests ALONE out where it uses the race detector, and plays them without
// it in the packages MIXED alone. One of that name elsewhere would not be run at all.
func TestWhatRunsWithoutTheRaceDetectorIsRun(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + ` = (.*)$`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return strings.ReplaceAll(string(found[1]), "$$", "$")
	}
	mixed, serial := regexp.MustCompile(value("MIXED")), regexp.MustCompile(value("SERIAL"))
	whole, parts, _ := strings.Cut(value("ALONE"), "|^TestExitCodes$/") // of which the rest names subtests
	alone := regexp.MustCompile(whole)
	times := map[string]int{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = walk(home(), func(name string) error {
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir := "/" + path.Dir(name)
		text, err := fs.ReadFile(home(), name)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			if !alone.MatchString(m[1]) {
				continue
			}
			times[m[1]]++
			if !mixed.MatchString(dir) || serial.MatchString(dir) {
				t.Errorf("%s: %s is ALONE by its name, and %s is none of the packages MIXED", name, m[1], dir)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(whole, -1) {
		if times[name] != 1 {
			t.Errorf("ALONE has %s, of which there are %d", name, times[name])
		}
	}
	cases, err := os.ReadFile("../../cmd/gabion/internal/labcmd/labcmd_test.go")
	for _, part := range strings.Split(parts, "|^TestExitCodes$/") {
		name := strings.ReplaceAll(strings.Trim(part, "^$"), "_", " ")
		if err != nil || !strings.Contains(string(cases), `{"`+name) {
			t.Errorf("ALONE has the subtest %q, and labcmd's have none (%v)", name, err)
		}
	}
}
