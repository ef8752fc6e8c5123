package lint

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
)

func TestWhatWasMeasuredCountsWhereTheFileSaysNothing(t *testing.T) {
	said := facts.Facts{Rate: 5, Mesh: facts.MeshFacts{Attempts: 2}}
	got := add(said, facts.Facts{Rate: 7, P99: time.Second, Mesh: facts.MeshFacts{Attempts: 3, Timeout: time.Minute}})
	if want := (facts.Facts{Rate: 5, P99: time.Second, Mesh: facts.MeshFacts{Attempts: 2, Timeout: time.Minute}}); got != want {
		t.Errorf("%+v", got)
	}
	f, _ := config.Read("gabion.yaml", []byte("version: 1\ndependencies: {a: {}}"))
	r := run{measured: map[string]facts.Facts{"a": {Rate: 7}}}
	s := newSubject(&r, f, "a")
	if !s.knows("facts.rate") || s.knows("facts.p99") || len(r.report.Unknown) != 1 {
		t.Errorf("%+v", r.report.Unknown)
	}
}
