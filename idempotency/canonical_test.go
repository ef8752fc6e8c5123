package idempotency

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// What readers of JSON may understand differently, or not at all, is compared byte for
// byte; so no two requests with different meanings have the same form.
func TestJSONThatIsNotTheSame(t *testing.T) {
	r := post("k", "", "Content-Type", "application/json")
	for _, c := range []struct {
		name, one, other string
	}{
		{"names that encoding/json takes for one", `{"Amount":1,"amount":2}`, `{"amount":2,"Amount":1}`},
		{"deep inside", `[{"x":{"ID":1,"id":2}}]`, `[{"x":{"id":2,"ID":1}}]`},
		{"the Kelvin sign is a k", "{\"\u212a\":1,\"k\":2}", "{\"k\":2,\"\u212a\":1}"},
		{"the long s is an s", "{\"s\":1,\"\u017f\":2}", "{\"\u017f\":2,\"s\":1}"},
		{"names that differ by what some readers ignore", `{"user_id":1,"userid":2}`, `{"userid":2,"user_id":1}`},
		{"the case of a name", `{"Amount":1}`, `{"amount":1}`},
		{"a name twice", `{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{"a comma too many", `[1,]`, `[1]`},
		{"a comma too many in an object", `{"a":1,}`, `{"a":1}`},
		{"no comma", `[1 2]`, `[1,2]`},
		{"no colon", `{"a" 1}`, `{"a":1}`},
		{"two values", `{} {}`, `{}`},
		{"nothing", ` `, `{}`},
		{"null and nothing", `null`, `{}`},
		{"one and one point nought", `1`, `1.0`},
	} {
		for _, one := range []string{c.one, string(CanonicalJSON(r, []byte(c.one)))} { // nor can a client send the form of another
			if bytes.Equal(CanonicalJSON(r, []byte(one)), CanonicalJSON(r, []byte(c.other))) && one != c.other {
				t.Errorf("%s: %s and %s have one form: %s", c.name, one, c.other, CanonicalJSON(r, []byte(one)))
			}
		}
	}
}

// A form is JSON itself and its own form: what is compared byte for byte never is the
// form of something else.
func TestCanonicalFormsAreJSON(t *testing.T) {
	r := post("k", "", "Content-Type", "application/json")
	for _, body := range []string{`{ "b":[1, 2 ,{}], "a":{"x":null}}`, `[]`, `{}`, `""`, `[[],{}]`, ` {"a":[]}`, `-0.0`} {
		form := CanonicalJSON(r, []byte(body))
		if !json.Valid(form) || !bytes.Equal(CanonicalJSON(r, form), form) {
			t.Errorf("%s has the form %s, and that %s", body, form, CanonicalJSON(r, form))
		}
		if strings.TrimSpace(body) != body && string(form) == body {
			t.Errorf("%s was left as it is", body)
		}
	}
}
