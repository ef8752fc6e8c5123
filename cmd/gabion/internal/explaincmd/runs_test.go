package explaincmd

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// A number that an operator copies from today's log means the program that runs now.
func TestAPlainNumberMeansTheLastRunThatHasTheCall(t *testing.T) {
	recording, _ := files(t)
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	run := string(text)
	only := strings.ReplaceAll(run, `"call":6`, `"call":66`) // has no call 6, and alone has a call 66
	for fact, c := range map[string]struct {
		file, call string
		code       int
		says, not  string
	}{
		"one run":                      {run, "6", cli.ExitOK, "call 6 of bank", "also"},
		"three runs":                   {run + run + run, "6", cli.ExitOK, "call 3.6 of bank", "\x00"},
		"the others are named":         {run + run + run, "6", cli.ExitOK, "note: also 1.6, 2.6: this is the one of run 3, the last that has a call 6", "\x00"},
		"the last has no such call":    {run + run + only, "6", cli.ExitOK, "call 2.6 of bank", "\x00"},
		"the others are named then":    {run + run + only, "6", cli.ExitOK, "also 1.6: this is the one of run 2", "\x00"},
		"the first alone has it":       {only + run + run, "66", cli.ExitOK, "call 1.66 of bank", "also"},
		"what stood when it began":     {only + run + run, "66", cli.ExitOK, "* -0.500s 00:00:02.250 breaker closed", "\x00"},
		"the last is named as others":  {run + run, "2.6", cli.ExitOK, "call 2.6 of bank", "also"},
		"the first is named":           {run + run, "1.6", cli.ExitOK, "call 1.6 of bank", "also"},
		"no run has it":                {run + run, "9", cli.ExitUsage, "has no call 9: the calls of run 2 are 2.1 to 2.6", "\x00"},
		"the named run does not":       {run + only, "2.6", cli.ExitUsage, "has no call 2.6: the calls of run 2 are 2.1 to 2.66", "\x00"},
		"a run that is not there":      {run + run, "3.6", cli.ExitUsage, "has no run 3: it has 2 runs", "\x00"},
		"nothing of a run before":      {run + run, "1", cli.ExitOK, "call 2.1 of bank", "breaker"},
		"many runs: not all are named": {strings.Repeat(run, 15), "6", cli.ExitOK, "14.6 and 4 more: this is the one of run 15", "1.6, 2.6"},
	} {
		code, out, stderr := ask(c.file, "-", "--call", c.call)
		all := strings.Join(strings.Fields(out+stderr), " ")
		if code != c.code || !strings.Contains(all, c.says) || strings.Contains(all, c.not) {
			t.Errorf("%s: exit code %d, want %q and not %q in\n%s%s", fact, code, c.says, c.not, out, stderr)
		}
	}
}

// The list names calls so that --call finds them.
func TestTheListNamesTheRunWhereThereAreSeveral(t *testing.T) {
	recording, _ := files(t)
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][2]string{string(text): {"5", "6"}, string(text) + string(text): {"1.5", "2.6"}} {
		_, out, stderr := ask(file, "-", "--json")
		var got overview
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Ends) == 0 || stderr != "" {
			t.Fatalf("%v, %s%s", err, out, stderr)
		}
		if have := [2]string{got.Ends[0].First, got.Ends[0].Last}; have != want {
			t.Errorf("calls %v, want %v", have, want)
		}
		for _, id := range want {
			if code, shown, _ := ask(file, "-", "--call", id); code != cli.ExitOK || !strings.HasPrefix(shown, "call "+id+" of bank") {
				t.Errorf("call %s: exit code %d, %s", id, code, shown)
			}
		}
		for _, list := range got.Look {
			for _, c := range list.Calls {
				if strings.Contains(c.Call, ".") != strings.Contains(want[0], ".") {
					t.Errorf("%s: call %s", list.Why, c.Call)
				}
			}
		}
	}
}
