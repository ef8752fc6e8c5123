package lab

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/examples/migrate/guide"
	"github.com/gabion-go/gabion/examples/migrate/polly"
	"github.com/gabion-go/gabion/examples/migrate/resilience4j"
	"github.com/gabion-go/gabion/lab"
)

var update = flag.Bool("update", false, "write the tables of the guides")

// The lab gives the same numbers everywhere, so the guides have exactly these.
func TestTheGuidesSayWhatTheLabSays(t *testing.T) {
	for library, text := range map[string][]byte{"resilience4j": resilience4j.File, "polly": polly.File} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			file, err := config.Parse("gabion.yaml", text)
			if err != nil {
				t.Fatal(err)
			}
			var table strings.Builder
			fmt.Fprintf(&table, "| of the answers are 503 for half a minute | %s | gabion |\n|---|---|---|\n", library)
			for _, share := range []string{"10%", "50%", "100%"} {
				theirs, ours, err := Played(t.Context(), library, file, share)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&table, "| %s | %s | %s |\n", strings.Replace(share, "%", " %", 1), theirs, ours)
			}
			guide.Keep(t, "../../../docs/migrate/"+library+".md", "played", table.String(), *update, func(a, b string) bool { return a == b })
		})
	}
}

// Each guide begins with gabion import, or says why not, and with an outage in the lab against what it leaves.
func TestEachGuideBeginsWithImportAndTheLab(t *testing.T) {
	known := []string{"gabion.yaml"}
	for _, o := range lab.Opponents() {
		known = append(known, o.Name)
	}
	pages, err := filepath.Glob("../../../docs/migrate/*.md")
	if err != nil || len(pages) != 11 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		opening, _, _ := strings.Cut(string(text), "\n## ")
		_, against, ok := strings.Cut(opening, "gabion lab run error-storm --config ")
		_, against, _ = strings.Cut(against, " --against ")
		if against = strings.FieldsFunc(against+" ", func(r rune) bool { return r == ' ' || r == '\n' || r == '`' })[0]; !ok || !slices.Contains(known, against) || !strings.Contains(opening, "`gabion import`") && !strings.Contains(opening, "    gabion import ") {
			t.Errorf("%s begins without gabion import, or without a game against what it leaves: %q", page, against)
		}
	}
}

func TestAnUnknownLibraryIsAnError(t *testing.T) {
	file, err := config.Parse("gabion.yaml", polly.File)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Played(t.Context(), "poly", file, "10%"); err == nil {
		t.Error("it was played")
	}
}
