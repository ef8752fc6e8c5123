package mesh

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

var update = flag.Bool("update", false, "write what files come to")

// guessed is the format that a file seems to have.
func guessed(t testing.TB, name string, text []byte) (foreign.Format, bool) {
	t.Helper()
	_, trees, found := yamlstrict.Trees(name, text)
	if found != nil {
		return foreign.Format{}, false
	}
	for _, f := range Formats() {
		if f.Like(nil, trees) {
			return f, true
		}
	}
	return foreign.Format{}, false
}

// TestFilesOfTeams compares what files come to with what was looked at once.
func TestFilesOfTeams(t *testing.T) {
	for _, path := range files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, ok := guessed(t, path, text)
			if kind, _, _ := strings.Cut(filepath.Base(path), "-"); !ok || !strings.HasPrefix(f.Name, kind) {
				t.Fatalf("it seems to be of %q", f.Name)
			}
			got := shown(imported(t, f, filepath.Base(path), text))
			golden := strings.TrimSuffix(path, filepath.Ext(path)) + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("%v\ngot\n%s", err, got)
			}
		})
	}
}

func files(t testing.TB) (paths []string) {
	t.Helper()
	for _, ext := range []string{"yaml", "json"} {
		found, err := filepath.Glob("testdata/[a-km-z]*." + ext) // not lines-…
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return append(paths, "testdata/linkerd-schlep.yaml")
}

// shown is an import as text.
func shown(i *foreign.Import) string {
	var b strings.Builder
	for _, r := range i.Routes {
		fmt.Fprintf(&b, "%s (%s, line %d)\n", r.Dependency, r.Title, r.Line)
		fmt.Fprintf(&b, "  plays: call %s attempt %s, %d tries, %v, budget %s, bulkhead %s, breaker %s\n",
			policy.FormatDuration(r.Plays.Timeout.Call), policy.FormatDuration(r.Plays.Timeout.Attempt), r.Plays.Retry.Attempts, r.Plays.Retry.Backoff,
			budgetText(r.Plays.Retry.Budget), slots(r.Plays.Bulkhead), breakerText(r.Plays.Breaker))
		for _, key := range slices.Sorted(maps.Keys(r.From)) {
			var t testing.T
			fmt.Fprintf(&b, "  %s: %s (line %d)\n", key, valueAt(&t, r.Policy, key), r.From[key])
		}
	}
	fates := []string{"kept", "nearly", "lost", "elsewhere", "unknown"}
	for _, r := range i.Remarks {
		if r.Fate != foreign.Elsewhere {
			fmt.Fprintf(&b, "%d:%d %s %s: %s\n", r.Line, r.Col, fates[r.Fate], r.Key, cmp.Or(r.Text, "-"))
		}
	}
	if i.Wrong != nil {
		b.WriteString(i.Wrong.Error() + "\n")
	}
	return b.String()
}

func budgetText(b policy.Budget) string {
	if b.Off {
		return "off"
	}
	return fmt.Sprintf("%v ratio %v floor %v least %d in %s", b.Shape, b.Ratio, b.Floor, b.MinInFlight, policy.FormatDuration(b.Window))
}

func slots(b policy.Bulkhead) string {
	if b.Off {
		return "off"
	}
	return fmt.Sprintf("%d+%d", b.Limit, b.Queue)
}

func breakerText(b policy.Breaker) string {
	if b.Off {
		return "off"
	}
	return fmt.Sprintf("%d in a row, %s to %s", b.Consecutive, policy.FormatDuration(b.Open), policy.FormatDuration(b.OpenMax))
}
