package idemkey

import (
	"strings"
	"testing"
	"time"
)

// Parameters of a quoted key have no meaning: the same key, with and without.
func TestKeysWithParameters(t *testing.T) {
	for value, want := range map[string]string{
		`"abc";v=1`:           "abc",
		`"abc"`:               "abc",
		`"abc";v`:             "abc",
		`"abc"; v=1;w="a;\""`: "abc",
		`"a\"b";*v=:YQ==:`:    `a"b`,
		`"a;v=1"`:             "a;v=1",
		`abc;v=1`:             "abc;v=1", // bare keys are taken as they are
		`"abc";`:              "",
		`"abc";V=1`:           "",
		`"abc";1=1`:           "",
		`"abc";v=`:            "",
		`"abc";v="a`:          "",
		`"abc";v=a"b`:         "",
		`"abc";v=1,2`:         "",
		`"abc" ;v=1`:          "",
		`"abc", "abc"`:        "",
		`"abc"v=1`:            "",
		`"";v=1`:              "",
		`"abc;v=1`:            "",
		`";v=1`:               "",
	} {
		if got, ok := Parse(value); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", value, got, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"abc", `"abc"`, `"a\"b"`, `"a\\b"`, `"a\b"`, `"abc`, "", `""`, `"`, `a"b`, `"a";x=1`, `"a"; x="y\";";z=?0`, "a b", "é", strings.Repeat("k", 256)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, ok := Parse(value)
		if !ok {
			if key != "" {
				t.Fatalf("%q is refused and is the key %q", value, key)
			}
			return
		}
		if key == "" || len(key) > Max {
			t.Fatalf("%q is the key %q", value, key)
		}
		for _, c := range []byte(key) {
			if c <= ' ' || c > '~' {
				t.Fatalf("%q is the key %q", value, key)
			}
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, ok := Parse(quoted); !ok || again != key {
			t.Fatalf("%q quoted is %q", key, again)
		}
	})
}

func TestAKeyCarriesTheTimeAtWhichItWasMade(t *testing.T) {
	at := time.UnixMilli(1_790_000_000_123)
	key := New(at)
	if got, ok := MadeAt(key); !ok || !got.Equal(at) {
		t.Errorf("%s: %v, %v", key, got, ok)
	}
	for _, none := range []string{"", "order-7", key[:35], key + "0", strings.ReplaceAll(key, "-", "x"), key[:14] + "4" + key[15:], "g" + key[1:]} {
		if got, ok := MadeAt(none); ok {
			t.Errorf("%q was made at %v", none, got)
		}
	}
}

func TestScopesAndStepsNeverMeet(t *testing.T) {
	if ID("a", "bc") == ID("ab", "c") || ID("", "k") == ID("k", "") {
		t.Error("two scopes share a record")
	}
	// The vector was reckoned by another implementation, Python's hashlib and hmac.
	const vector = "9ebd8226127bd0f611d0406d669e8c6373f31b6d6fefb23e00ea1d4bac2623cf"
	if got := Derive(ID("acme", "order-7"), "capture"); got != vector {
		t.Errorf("derived %s, want %s: keys in flight would change", got, vector)
	}
}
