package idempotency

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What events and problems are called is a promise: to dashboards, and on the wire. The
// comments of their types list them, and so does the guide.
func TestTheListsOfWordsAreWhole(t *testing.T) {
	guide, err := os.ReadFile("../docs/idempotency.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, kind string
		words      []string
	}{
		{"event.go", "EventKind", texts(EventKinds())},
		{"problem.go", "Problem", texts(Problems())},
	} {
		source, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		comment, _, _ := strings.Cut(string(source), "\ntype "+c.kind+" string")
		var listed []string
		for _, line := range regexp.MustCompile(`(?m)^//\t(\S+)  `).FindAllStringSubmatch(comment, -1) {
			listed = append(listed, line[1])
		}
		if slices.Sort(listed); !slices.Equal(listed, c.words) {
			t.Errorf("the comment of %s lists %q, and there are %q", c.kind, listed, c.words)
		}
		if all := regexp.MustCompile(c.kind+` = "`).FindAllString(string(source), -1); len(all) != len(c.words) {
			t.Errorf("%d constants and %d words", len(all), len(c.words))
		}
	}
	for _, p := range Problems() {
		if !strings.Contains(string(guide), "\n### "+string(p)+"\n") {
			t.Errorf("docs/idempotency.md does not say what %s is", p)
		}
	}
	for kind, look := range trouble {
		if look && !strings.Contains(string(guide), "`"+string(kind)+"`") {
			t.Errorf("docs/idempotency.md does not say what %s is", kind)
		}
	}
}

func texts[T ~string](words []T) (all []string) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}
