package explaincmd

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// explained runs the command on words.
func explained(t *testing.T, words ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), Command(), words, &out, &errs); code != cli.ExitOK {
		t.Fatalf("%q: %d, %s", words, code, errs.String())
	}
	return out.String()
}

// Every reason of a dead letter can be looked up, and says what to do.
func TestReasonsOfMessages(t *testing.T) {
	code, err := os.ReadFile("../../../../messages/inbox/disposition.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^\tCause\w+ +Cause = "(\w+)"`).FindAllSubmatch(code, -1)
	if len(all) < 20 || len(all) != len(endings()) {
		t.Errorf("package inbox has %d reasons, and the page %d", len(all), len(endings()))
	}
	listed := explained(t)
	for _, m := range all {
		reason := string(m[1])
		e := endingOf(reason)
		if e == nil {
			t.Errorf("%s is not in the table of docs/reasons.md", reason)
			continue
		}
		text := strings.Join(strings.Fields(explained(t, reason)), " ")
		for _, want := range []string{reason + ", of a message: " + e.Means, "It becomes: " + e.Becomes + ".", "What to do: " + e.Do + "."} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q does not say %q", reason, text, want)
			}
		}
		if !strings.Contains(listed, "\n"+reason) {
			t.Errorf("%s is not listed", reason)
		}
		var got struct{ Message *ending }
		if err := json.Unmarshal([]byte(explained(t, "--json", reason)), &got); err != nil || got.Message == nil || *got.Message != *e {
			t.Errorf("%s as JSON: %+v, %v", reason, got, err)
		}
	}
	if text := explained(t, "outcome_unknown"); !strings.Contains(text, "key may be forgotten") || !strings.Contains(text, "gabion deadletter resolve") {
		t.Errorf("it says of a reason of both %s", text)
	}
	if text := explained(t, "breaker_open"); strings.Contains(text, "of a message") {
		t.Errorf("it says of a reason of calls %s", text)
	}
}
