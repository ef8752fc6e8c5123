package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChanges(t *testing.T) {
	tests := []struct {
		name, body string
		want       []string // what the body becomes
	}{
		{"a comparison gains its bound", "return a < b", []string{"return a <= b"}},
		{"an equality turns round", "return a == b", []string{"return a != b"}},
		{"both sides or one", "return x && y", []string{"return x || y"}},
		{"a sum is a difference", "a += b", []string{"a -= b", ""}},
		{"a count goes down", "a++", []string{"a--", ""}},
		{"a condition is negated", "if x || y { return }", []string{"if !(x || y) { return }", "if x && y { return }"}},
		{"an equality is not negated twice", "if a != b { return }", []string{"if a == b { return }"}},
		{"a number is larger", "a = 0x0f", []string{"", "a = 16"}},
		{"a number too large to add to stays", "a = 18446744073709551615", []string{""}},
		{"what others need is not left out", "c := a; _ = c", []string{"c := a; "}},
		{"a call is left out", "f()", []string{""}},
		{"in a case, too", "switch { case x: f() }", []string{"switch { case x:  }"}},
		{"comments stay", "f() /* why */ // how", []string{" /* why */ // how"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			head, tail := "package p\n\nfunc g(a, b int, x, y bool) bool {\n", "\n}\n"
			write(t, dir, map[string]string{"p.go": head + tt.body + tail})
			found, err := changesOf(filepath.Join(dir, "p.go"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range found {
				text := string(c.apply([]byte(head + tt.body + tail)))
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(text, head), tail))
				if c.line != 4 {
					t.Errorf("%s: in line %d", c.what, c.line)
				}
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

const tested = `package p

func Larger(a, b int) int {
	if a > b { // which of two equal ones does not matter
		return a
	}
	return b
}

func Sum(n int) (s int) {
	for n > 0 {
		s += n
		n--
	}
	return s
}
`

const itsTest = `package p

import "testing"

func Test(t *testing.T) {
	if Larger(1, 2) != 2 || Larger(2, 1) != 2 || Larger(2, 2) != 2 || Sum(3) != 6 {
		t.Fail()
	}
}
`

// Each change is tried, and the ones that no test notices are printed with their lines.
func TestSurvivorsArePrinted(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the go command tests a changed package many times")
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p.go": tested, "p_test.go": itsTest})
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	var out strings.Builder
	if err := Main(t.Context(), []string{"-n", "0", "-limit", "3s", "."}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"p.go:4: > becomes >=\n- \tif a > b { // which of two equal ones does not matter\n+ \tif a >= b { // which of two equal ones does not matter\n",
		"p.go:11: > becomes >=\n",
		".: of 8 changes 8 were tried, seed 1: 4 killed, 2 ran out of time, 2 survived (0 more did not compile)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := Main(t.Context(), []string{"-at", "p.go:7 p.go:4", "-limit", "3s", "."}, &out); err != nil || !strings.Contains(out.String(), "of 2 changes 2 were tried") {
		t.Errorf("two lines: %v\n%s", err, out.String())
	}
	write(t, dir, map[string]string{"other.go": "package p\n\nvar other = 1\n"})
	out.Reset()
	if err := Main(t.Context(), []string{"-n", "1", "-at", "other.go", "-limit", "3s", "."}, &out); err != nil || !strings.Contains(out.String(), "of 1 changes 1 were tried") {
		t.Errorf("a file: %v\n%s", err, out.String())
	}
	out.Reset()
	if err := Main(t.Context(), []string{"-for", "1ns", "."}, &out); err != nil || out.String() != ".: not begun: the time is over\n" {
		t.Errorf("no time: %v\n%s", err, out.String())
	}
	if left, _ := os.ReadFile("p.go"); string(left) != tested {
		t.Error("the file was changed")
	}
}

func TestWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p.go": tested, "p_test.go": strings.ReplaceAll(itsTest, "!= 6", "!= 7")})
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	for args, want := range map[string]string{
		"":         "which package",
		"-n -1 .":  "can't be negative",
		"./absent": "go list",
		".":        "fail without any change",
	} {
		err := Main(t.Context(), strings.Fields(args), new(strings.Builder))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
