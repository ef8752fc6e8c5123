package fleet

import (
	"fmt"
	"strings"
	"testing"

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
