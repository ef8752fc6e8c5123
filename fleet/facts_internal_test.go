package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/fleet"
)

// A thousand dependencies whose partitions are all broken: what a report says of them has to fit into a record.
func TestWhatAReportSaysOfBrokenBreakersIsBounded(t *testing.T) {
	of := map[string]dependencyFacts{}
	for n := range fleet.MaxResources {
		var f dependencyFacts
		for i := range mostOpen {
			f.Open = append(f.Open, fmt.Sprint(strings.Repeat("x", 120), n, i))
		}
		of[fmt.Sprint("dependency-", n)] = f
	}
	if n := len(encoded(of)); n < fleet.MaxRecord {
		t.Fatalf("%d bytes are no trouble", n)
	}
	bound(of)
	if n := len(encoded(of)); n > fleet.MaxRecord/4 {
		t.Errorf("%d bytes are left", n)
	}
	for name, f := range of {
		if len(f.Open) == 0 {
			t.Errorf("nothing says that a breaker of %s is open", name)
		}
	}
}

// Breakers count that processes found open in the last ten seconds, by a clock that may have stepped, and that are still there.
func TestWhoseWordIsEvidence(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		fact  string
		age   time.Duration
		left  bool
		known bool
	}{
		{"of a moment ago", time.Second, false, true},
		{"of ten seconds ago", fresh, false, true},
		{"of before that", fresh + time.Millisecond, false, false},
		{"of a time to come", -fresh - time.Millisecond, false, false},
		{"of one that has left", time.Second, true, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var reports []fleet.Report
			for _, id := range []string{"a", "b"} {
				reports = append(reports, fleet.Report{ID: id, Leaves: c.left, Facts: map[string]json.RawMessage{
					fleet.Process: encoded(fleet.ProcessFacts{At: now.Add(-c.age).UnixMilli()}),
					"payments":    encoded(fleet.DependencyFacts{Open: []string{""}}),
				}})
			}
			var k knownFacts
			if err := json.Unmarshal(known(reports, now, nil), &k); err != nil || (k.Open["payments"][""] == 2) != c.known || (k.Members == 2) != c.known {
				t.Errorf("%+v, %v", k, err)
			}
		})
	}
}
