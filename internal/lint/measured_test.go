package lint

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
)

func TestWhatWasMeasuredCountsWhereTheFileSaysNothing(t *testing.T) {
	said := config.Facts{Rate: 5, Mesh: config.MeshFacts{Attempts: 2}}
	got := add(said, config.Facts{Rate: 7, P99: time.Second, Mesh: config.MeshFacts{Attempts: 3, Timeout: time.Minute}})
	if want := (config.Facts{Rate: 5, P99: time.Second, Mesh: config.MeshFacts{Attempts: 2, Timeout: time.Minute}}); got != want {
		t.Errorf("%+v", got)
	}
	f, _ := config.Read("gabion.yaml", []byte("version: 1\ndependencies: {a: {}}"))
	r := run{measured: map[string]config.Facts{"a": {Rate: 7}}}
	s := newSubject(&r, f, "a")
	if !s.knows("facts.rate") || s.knows("facts.p99") || len(r.report.Unknown) != 1 {
		t.Errorf("%+v", r.report.Unknown)
	}
}
