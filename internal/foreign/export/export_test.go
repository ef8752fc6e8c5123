package export

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// some are random policies: a few with -short, and 10,000 without.
var some = sync.OnceValue(func() []policy.Policy {
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]policy.Policy, 10_000)
	if testing.Short() {
		all = all[:200]
	}
	for i := range all {
		all[i] = random(r)
	}
	return all
})

// unsaid finds a difference that no line is about, or a line that is about none.
func unsaid(p policy.Policy, e Export) string {
	from, to := plain(p), plain(e.Comes)
	about := map[string]bool{}
	for _, path := range differing(from, to) {
		key := owner(e.Rows, path)
		about[key] = true
		i := slices.IndexFunc(e.Rows, func(r Row) bool { return r.Key == key })
		silent := (from.Retry.Attempts > 1 || from.Hedge.Max > 0) && to.Retry.Attempts <= 1 && (strings.HasPrefix(path, "retry.") || strings.HasPrefix(path, "timeout."))
		switch {
		case i < 0 && silent: // one attempt has no retries, and no time for the last of several
		case i < 0:
			return path + " differs, and no line is about it"
		case e.Rows[i].Fate == foreign.Kept:
			return path + " differs, and is said to be kept"
		}
	}
	keys := map[string]bool{}
	for _, r := range e.Rows {
		if keys[r.Key] {
			return r.Key + " has two lines"
		}
		keys[r.Key] = true
		switch {
		case r.Fate == foreign.Lost && !about[r.Key] && r.Key != "retry.attempts" && r.Key != "hedge":
			return r.Key + " is said to be lost, and does not differ"
		case r.Fate == foreign.Kept && r.Text != "", r.Fate != foreign.Kept && r.Text == "":
			return r.Key + ": its fate and its text don't agree: " + r.Text
		case strings.Contains(r.Text, "%!"):
			return r.Text
		}
	}
	return ""
}

func table(e Export) string {
	var b strings.Builder
	for _, r := range e.Rows {
		b.WriteString([]string{"kept", "nearly", "lost"}[r.Fate] + " " + r.Key + "=" + r.Value + " -> " + r.Target + ": " + r.Text + "\n")
	}
	return b.String() + e.Text
}

// Keys that a table names exist.
func TestTablesNameKeysOfAPolicy(t *testing.T) {
	for _, f := range Formats() {
		for _, m := range f.Mappings {
			if !fieldAt(reflect.ValueOf(policy.Policy{}), m.Key).IsValid() || !strings.HasPrefix(m.Source, "https://") {
				t.Errorf("%s: %s, %s", f.Name, m.Key, m.Source)
			}
		}
	}
}

// All that is written is YAML without findings, JSON among it.
func TestWhatIsWrittenHasRightSyntax(t *testing.T) {
	for _, p := range some()[:200] {
		for _, f := range Formats() {
			text := f.Write(Dependency{Name: "on", Host: "stock.shop:8080", Policy: p}).Text
			if _, all, found := yamlstrict.Trees("x", []byte(text)); len(all) == 0 || len(found) > 0 {
				t.Fatalf("%s: %v\n%s", f.Name, found, text)
			}
		}
	}
}
