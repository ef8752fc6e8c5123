package testgolden

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tester keeps what a test would print. Its Fatal ends the goroutine, as that of a test does.
type tester struct {
	testing.TB
	said string
}

func (t *tester) Helper()                           {}
func (t *tester) Name() string                      { return "TestX" }
func (t *tester) Errorf(format string, args ...any) { t.said += fmt.Sprintf(format, args...) }
func (t *tester) Fatal(args ...any)                 { t.said += fmt.Sprint(args...); runtime.Goexit() }
func (t *tester) Fatalf(format string, args ...any) { t.Errorf(format, args...); runtime.Goexit() }

func TestWhatIsComparedAndWritten(t *testing.T) {
	const page = "# A\n<!-- a -->\none\ntwo\n<!-- end -->\nrest\n"
	part := func(made string) func(testing.TB, string) {
		return func(t testing.TB, name string) { Part(t, name, "<!-- a -->\n", "<!-- end -->", made) }
	}
	for fact, c := range map[string]struct {
		do          func(t testing.TB, name string)
		update      bool
		said, after string
	}{
		"the same file":               {do: func(t testing.TB, name string) { File(t, name, page) }},
		"another file":                {do: func(t testing.TB, name string) { File(t, name, "# A\n<!-- b -->\n") }, said: "line 2 of what is compared on:\n got <!-- b -->\nwant <!-- a -->"},
		"a file that is cut":          {do: func(t testing.TB, name string) { File(t, name, "# A") }, said: "line 1 of what is compared"},
		"a file is written":           {do: func(t testing.TB, name string) { File(t, name, "new\n") }, update: true, after: "new\n"},
		"the same part":               {do: part("one\ntwo\n")},
		"another part":                {do: part("one\n2\n"), said: "line 2 of what is compared on:\n got 2\nwant two"},
		"a part is written":           {do: part("three\n"), update: true, after: "# A\n<!-- a -->\nthree\n<!-- end -->\nrest\n"},
		"a mark is missing":           {do: func(t testing.TB, name string) { Part(t, name, "<!-- b -->\n", "<!-- end -->", "") }, said: "has no place"},
		"an end is missing":           {do: func(t testing.TB, name string) { Part(t, name, "<!-- a -->\n", "<!-- fin -->", "") }, update: true, said: "has no place"},
		"figures are not compared":    {do: func(t testing.TB, name string) { Measured(t, name, "<!-- a -->\n", "<!-- end -->", "9\n") }},
		"figures are written":         {do: func(t testing.TB, name string) { Measured(t, name, "<!-- a -->\n", "<!-- end -->", "9\n") }, update: true, after: "# A\n<!-- a -->\n9\n<!-- end -->\nrest\n"},
		"a file that is not there":    {do: func(t testing.TB, name string) { File(t, name+".not", page) }, said: "no such file"},
		"a new file comes by -update": {do: func(t testing.TB, name string) { File(t, name+".new", page) }, update: true},
	} {
		t.Run(fact, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "page.md")
			if err := os.WriteFile(name, []byte(page), 0o600); err != nil {
				t.Fatal(err)
			}
			defer func(was bool) { *update = was }(*update)
			*update = c.update
			var x tester
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.do(&x, name)
			}()
			<-done
			if (c.said == "") != (x.said == "") || !strings.Contains(x.said, c.said) {
				t.Errorf("it says %q, want %q", x.said, c.said)
			}
			if after, err := os.ReadFile(name); err != nil || c.after != "" && string(after) != c.after || c.after == "" && string(after) != page {
				t.Errorf("%v; it holds %q, want %q", err, after, c.after)
			}
		})
	}
}
