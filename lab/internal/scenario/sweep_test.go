package scenario

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func swept(t *testing.T, text string, o SweepOptions) *Sweep {
	t.Helper()
	f, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.RunSweep(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func cell(t *testing.T, s *Sweep, row int, key, phase string) SweepCell {
	t.Helper()
	k := slices.IndexFunc(s.Columns, func(c SweepColumn) bool { return c.Key == key && c.Phase == phase && c.At != "worst" })
	if k < 0 {
		t.Fatalf("no column %s %s in %+v", key, phase, s.Columns)
	}
	return s.Rows[row].Cells[k]
}

// Attempts are sent again as often as the value says, for as long as all answers are 503.
func TestASweepTriesEachValue(t *testing.T) {
	text := strings.Replace(storm, "policies:", "assert: [amplification <= 1.5 during]\npolicies:", 1)
	text = strings.Replace(text, "{safe: true, timeout: {call: 5s, attempt: 1s}}", "{safe: true, timeout: {call: 5s, attempt: 1s}, retry: {budget: off, attempts: 3, backoff: {kind: constant, base: 10ms}}, breaker: off}", 1)
	s := swept(t, text, SweepOptions{Key: "retry.attempts", Values: []string{"1", "2", "3", "4"}})
	var kinds, values []string
	for _, r := range s.Rows {
		kinds, values = append(kinds, r.Kind), append(values, r.Value)
	}
	if !slices.Equal(kinds, []string{Swept, Swept, Swept, Swept, AsItIs, Bare}) || !slices.Equal(values, []string{"1", "2", "3", "4", "3", ""}) {
		t.Fatalf("rows %q of %q", kinds, values)
	}
	for row, want := range []float64{1, 1.8, 2.44, 2.952, 2.44, 1} {
		if got := cell(t, s, row, "load", "during").Value.Value; got < want-0.05 || got > want+0.05 {
			t.Errorf("%s=%s sends %g, want %g", s.Key, s.Rows[row].Value, got, want)
		}
	}
	for row, want := range [][]string{{}, {"amplification <= 1.5 during"}} {
		if !slices.Equal(s.Rows[row].Fails, want) {
			t.Errorf("%s fails in %q", s.Rows[row].Value, s.Rows[row].Fails)
		}
	}
	verdicts := func(key, phase string) (all []string) {
		for row := range s.Rows {
			all = append(all, cell(t, s, row, key, phase).Verdict)
		}
		return all
	}
	if got := verdicts("load", "during"); !slices.Equal(got, []string{"best", "worse", "worse", "worse", "worse", "unresolved"}) {
		t.Errorf("the load is %q", got)
	}
	if got := verdicts("goodput", "during"); !slices.Equal(got, []string{"worse", "worse", "worse", "best", "worse", "worse"}) {
		t.Errorf("answers are %q", got)
	}
	if s.Rows[4].Points != 0 || s.Rows[3].Points <= 0 || s.Rows[0].Points >= 0 && s.Rows[1].Points >= 0 {
		t.Errorf("points %g, %g, %g, %g", s.Rows[0].Points, s.Rows[1].Points, s.Rows[3].Points, s.Rows[4].Points)
	}
	if !slices.Equal(s.Policies, []string{"db"}) {
		t.Errorf("the policies are %q", s.Policies)
	}
}

// A value that is what the policy says comes to the same, to the last digit: all rows are
// with the same random numbers, whatever the number of workers.
func TestASweepHasOneSetOfNumbers(t *testing.T) {
	o := SweepOptions{Key: "breaker.open", Values: []string{"1s", "3s"}}
	o.Replications, o.Workers = 2, 1
	one := swept(t, storm, o)
	o.Workers = 4
	four := swept(t, storm, o)
	a, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := json.Marshal(four); string(a) != string(b) {
		t.Error("four workers find another sweep")
	}
	text := strings.Replace(storm, "{safe: true, ", "{safe: true, breaker: {open: 3s}, ", 1)
	same := swept(t, text, o)
	for k := range same.Rows[1].Cells {
		if x, y := same.Rows[1].Cells[k].Value, same.Rows[2].Cells[k].Value; !reflect.DeepEqual(x, y) {
			t.Errorf("%s is %v with the value of the policy, and %v as it is", same.Columns[k].Name, x, y)
		}
	}
	if same.Rows[2].Value != "3s" {
		t.Errorf("as it is: %q", same.Rows[2].Value)
	}
}

func TestWhatMakesNoDifferenceIsNotBest(t *testing.T) {
	s := swept(t, storm, SweepOptions{Key: "bulkhead.limit", Values: []string{"1000", "1001", "1002"}, Options: Options{Replications: 2}})
	for _, b := range s.Best {
		if b.Row >= 0 {
			t.Errorf("%s is best in %s", s.Rows[b.Row].Value, s.Columns[b.Column].Name)
		}
	}
	for _, r := range s.Rows {
		for k, c := range r.Cells {
			if c.Verdict == Best {
				t.Errorf("%s is best in %s", r.Value, s.Columns[k].Name)
			}
		}
	}
}

func TestASweepIsOfThePolicyThatItNames(t *testing.T) {
	s := swept(t, refusing, SweepOptions{Key: "key", Policy: "till", Values: []string{"declared", "required"}, Options: Options{Replications: 2}})
	if a, b := cell(t, s, 0, "goodput", "all").Value.Value, cell(t, s, 1, "goodput", "all").Value.Value; a < 0.99 || b > 0.97 || b < 0.95 {
		t.Errorf("%g and %g of the calls are answered, of which 4 %% are the till's", a, b)
	}
}

func TestSweepsThatAreNotPossible(t *testing.T) {
	f, err := Parse("x", []byte(storm))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fact string
		o    SweepOptions
		want string
	}{
		{"one value", SweepOptions{Key: "breaker.open", Values: []string{"1s"}}, "two values"},
		{"too many", SweepOptions{Key: "breaker.open", Values: make([]string, 51)}, "51 values of breaker.open are more than 50"},
		{"an unused policy", SweepOptions{Key: "breaker.open", Policy: "bd", Values: []string{"1s", "2s"}}, `nothing in x goes by the policy "bd": did you mean db?`},
		{"a key that is not there", SweepOptions{Key: "breaker.opn", Values: []string{"1s", "2s"}}, "did you mean breaker.open?"},
		{"a value that contradicts another", SweepOptions{Key: "timeout.attempt", Values: []string{"1s", "20s"}}, "timeout.attempt=20s: x: policy db: timeout.attempt: 20s"},
	} {
		if _, err := f.RunSweep(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.fact, err, c.want)
		}
	}
}
