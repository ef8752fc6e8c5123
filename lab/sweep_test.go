package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

func TestHowValuesAreWritten(t *testing.T) {
	for what, want := range map[string]string{
		"breaker.open=1s,2s,5s":                  " breaker.open: 1s 2s 5s",
		"breaker.open=1s..30s":                   " breaker.open: 1s 2s 3.9s 7.7s 15s 30s",
		"breaker.open=1s..5s":                    " breaker.open: 1s 1.8s 2.6s 3.4s 4.2s 5s",
		"breaker.open=1s..9s:3":                  " breaker.open: 1s 5s 9s",
		"breaker.open=1s..9s:3:log":              " breaker.open: 1s 3s 9s",
		"breaker.open=1s..100s:linear:3":         " breaker.open: 1s 50s 100s",
		"db.breaker.open=1s,2s":                  "db breaker.open: 1s 2s",
		"retry=off,off":                          "off is there twice",
		"breaker.failure_rate=50%..95%:4":        " breaker.failure_rate: 50% 65% 80% 95%",
		"breaker.opn=1s,2s":                      "did you mean breaker.open?",
		"braker.open=1s,2s":                      "did you mean breaker.open?",
		"breaker.open.more=1s,2s":                "there are breaker.observe, ",
		"breaker.open=1s,2":                      `"2" has no unit`,
		"breaker.open=1s..9s:many":               `"many" after a range`,
		"breaker.open=1s..9s:51":                 "at most 50",
		"breaker.open=9s..1s":                    "does not rise",
		"breaker.open":                           "write one such as",
		"breaker.open=":                          "write one such as",
		"=1s,2s":                                 "write one such as",
		"breaker.open=1s,,2s":                    `"" is not a duration`,
		"breaker.per=call..attempt":              "no end of a range",
		"retry.budget.shape=earned,window,token": "did you mean tokens?",
	} {
		o, err := sweepOptions(what)
		got := o.Policy + " " + o.Key + ": " + strings.Join(o.Values, " ")
		var as *policyfile.SetError
		if err != nil {
			got = err.Error()
		}
		if err != nil && !errors.As(err, &as) || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
}

func TestASweepIsWritten(t *testing.T) {
	s, err := Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	var done []int
	made, err := s.Sweep(t.Context(), Options{Replications: 3, Progress: func(n, of int) { done = append(done, n, of) }}, "retry.attempts=1..4:2")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(done); n != 24 || done[n-2] != 12 || done[n-1] != 12 {
		t.Errorf("the progress is %v", done)
	}
	var text, page, data bytes.Buffer
	if err := errors.Join(made.Terminal(&text), made.Markdown(&page), made.WriteJSON(&data)); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Version int
		Rows    []struct{ Kind, Value string }
	}
	if err := json.Unmarshal(data.Bytes(), &back); err != nil || back.Version != 1 || len(back.Rows) != 4 || back.Rows[1].Value != "4" {
		t.Errorf("%v, %+v", err, back)
	}
	for _, want := range []string{"retry.attempts of db, 3 runs each, seed 1\n", "For the dependency 1 is best: 1.00 requests", "every other value is worse.", "\nplain ", "now: 3"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	for _, want := range []string{"### <code>retry.attempts</code> of db in small.yaml: small\n", "\n| retry.attempts | in time |", "| points | fails |"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, &page)
		}
	}
	head, _, _ := strings.Cut(text.String(), "* is best")
	if column, told := strings.Contains(head, " fails"), strings.Contains(text.String(), "Fails are"); column != told || !strings.Contains(page.String(), "Fails are") {
		t.Errorf("a column of fails is there: %v, and explained: %v", column, told)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "For ") || strings.HasPrefix(line, "again") {
			continue // a terminal wraps sentences
		}
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for fact, o := range map[string]Options{"a rival": {Rival: Plain}, "a map": {Map: true}, "a client": {Watch: "shop"}, "a recording": {Record: &Recording{}}, "another file": {Against: &config.File{}}} {
		if _, err := s.Sweep(t.Context(), o, "retry.attempts=1,2"); err == nil {
			t.Errorf("%s is taken", fact)
		}
	}
}

// Whatever is written, all values of it can be set.
func FuzzSweepOptions(f *testing.F) {
	for _, what := range []string{"breaker.open=1s..30s:10:log", "db.retry.attempts=1,2,3", "breaker.failure_rate=1%..99%:50", "=", "a=b..c", "breaker.open=1ns..9999h:50"} {
		f.Add(what)
	}
	f.Fuzz(func(t *testing.T, what string) {
		o, err := sweepOptions(what)
		if err != nil {
			return
		}
		for _, v := range o.Values {
			if _, err := policyfile.Set(policy.Policy{}, o.Key, v); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
