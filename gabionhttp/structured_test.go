package gabionhttp

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// parsed writes what a scanner reads of a list as a text.
func parsed(field string) (string, bool) {
	s, ok := scan([]string{field})
	if !ok {
		return "", false
	}
	var out strings.Builder
	ok = s.members(func() {
		b := s.bare()
		fmt.Fprintf(&out, "%c%q", b.kind, b.text)
		s.params(func(key string, value bare) { fmt.Fprintf(&out, ";%s=%c%q", key, value.kind, value.text) })
		out.WriteByte(',')
	})
	return out.String(), ok
}

func TestStructuredFields(t *testing.T) {
	for field, want := range map[string]string{
		`"a"`:                      `s"a",`,
		`"a" , b;x`:                `s"a",t"b";x=?"1",`,
		`"q\"\\";r=-1;t=1.500`:     `s"q\"\\";r=i"-1";t=d"1.500",`,
		`?0;  k=:YQ==:;*z=@12`:     `?"0";k=:"YQ==";*z=@"12",`,
		`*tok/en:1`:                `t"*tok/en:1",`,
		`%"f%c3%bc";a`:             `%"f%c3%bc";a=?"1",`,
		`999999999999999`:          `i"999999999999999",`,
		``:                         ``,
		"  \"a\"  ":                `s"a",`,
		`"a"` + "\t,\t" + `"b"`:    `s"a",s"b",`,
		`a;r=1;r=2`:                `t"a";r=i"1";r=i"2",`,
		`"a";k=` + `"` + "x" + `"`: `s"a";k=s"x",`,
	} {
		if got, ok := parsed(field); !ok || got != want {
			t.Errorf("%q is read as %s, %t; want %s", field, got, ok, want)
		}
	}
	for _, field := range []string{
		`"a`, `"a\b"`, `"ä"`, `a,`, `,a`, `a,,b`, `a b`, `a;`, `a;X=1`, `a;1=1`, `a; =1`, `a;b=`, `1.`, `1.1234`, `-`, `--1`, `1234567890123.1`, `1234567890123456`, `:a`, `:ä:`, `?2`, `?`, `@1.5`, `@`,
		`%"f%C3"`, `%"f%c"`, `%f`, `("a")`, `!a`, `a ;b`, "\"a\tb\"", strings.Repeat("a,", maxMembers+1) + "a", strings.Repeat("a", maxField),
	} {
		if got, ok := parsed(field); ok {
			t.Errorf("%q is read as %s, and is malformed", field, got)
		}
	}
}

// model is RFC 9651's grammar of a list without inner lists, as one expression.
var model = func() *regexp.Regexp {
	item := `(?:-?[0-9]{1,12}\.[0-9]{1,3}|-?[0-9]{1,15}|"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_` + "`" + `|~:/]*|:[A-Za-z0-9+/=]*:|\?[01]|@-?[0-9]{1,15}|%"(?:[ !#$&-~]|%[0-9a-f]{2})*")`
	member := item + `(?:; *[a-z*][a-z0-9_.*\-]*(?:=` + item + `)?)*`
	return regexp.MustCompile(`^ *(?:` + member + `(?:[ \t]*,[ \t]*` + member + `)*[ \t]*)?$`)
}()

// FuzzStructuredFields: the scanner reads what the grammar allows, and nothing else.
func FuzzStructuredFields(f *testing.F) {
	for _, s := range []string{`"default";r=50;t=30`, `"a";q=1;pk=:YQ==:, b;c=?1`, `%"f%c3%bc"`, `@1`, `1.5;a="x\""`, `a,`, `a;b=`, "1.", `limit=1`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		if len(field) > maxField-2 || strings.Count(field, ",") > maxMembers-2 {
			return // longer than is read
		}
		got, ok := parsed(field)
		if want := model.MatchString(field) && !strings.HasSuffix(field, "\n"); ok != want {
			t.Fatalf("%q is well formed: %t; it is read as %s, %t", field, want, got, ok)
		}
	})
}
