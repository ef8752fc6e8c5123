package idempotency

import "testing"

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
		if got, err := ParseKey(value); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", value, got, err)
		}
	}
	r := newRig(t, Config{}, answer(201, "done"))
	first := r.send(post(`"abc";v=1`, "x"))
	r.wantReplay(first, r.send(post("abc", "x")))
	if got := first.Header().Get(HeaderKey); got != `"abc";v=1` {
		t.Errorf("echoed %s", got)
	}
}
