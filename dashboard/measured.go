package dashboard

import (
	"encoding/json"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/policy"
)

// A measured is what a dependency has counted since it was made, in numbers for programs. The
// page itself shows sentences.
type measured struct {
	Name       string           `json:"name"`
	Calls      int64            `json:"calls"`
	Succeeded  int64            `json:"succeeded"`
	Attempts   int64            `json:"attempts"`
	Retries    int64            `json:"retries"`
	Hedges     int64            `json:"hedges"`
	HedgesWon  int64            `json:"hedges_won"`
	Unsent     int64            `json:"unsent"`
	Failures   map[string]int64 `json:"failures"` // by reason
	Latency    quantiles        `json:"latency"`
	Took       formulas.Counts  `json:"took"`   // attempts that succeeded since the page began, by the bounds of contrib/gabionprom's buckets
	Cut        int64            `json:"cut"`    // attempts that their timeout ended since then
	Opened     int64            `json:"opened"` // times that a breaker opened since then
	Slots      *slots           `json:"slots,omitempty"`
	Budget     int64            `json:"budget"` // re-sends that are allowed right now; -1 without a budget
	State      string           `json:"state"`  // of the breaker that is worst
	RetriesOff bool             `json:"retries_off,omitempty"`
	Settings   []policy.Setting `json:"settings"`
}

// quantiles are of successful attempts, in milliseconds.
type quantiles struct {
	P50     float64 `json:"p50"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
	P999    float64 `json:"p999"`
	Samples int64   `json:"samples"`
	Span    float64 `json:"span"`
}

// serveMeasured serves what each dependency has counted.
func (p *Page) serveMeasured(w http.ResponseWriter, _ *http.Request) {
	v := p.look()
	all := struct {
		Version      int        `json:"version"`
		Program      string     `json:"program,omitempty"` // its version, or the commit that it was built from
		At           int64      `json:"at"`
		Up           float64    `json:"observed_ms"` // for how long the page has observed
		Dependencies []measured `json:"dependencies"`
	}{Version: frameVersion, Program: programVersion(), At: v.date(v.now), Up: millis(v.now), Dependencies: p.watched.measured()}
	for i := range all.Dependencies {
		if d := &all.Dependencies[i]; p.config.Settings != nil {
			if told := p.config.Settings(d.Name); told != nil {
				d.Settings = told
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(all) //nolint:errcheck // the client has gone
}

// programVersion is the version of the running program, or where it has none the commit that it was built from.
var programVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return ""
})

// measured returns what all dependencies have counted, by name.
func (c *collector) measured() []measured {
	all := []measured{}
	for name, t := range *c.tiles.Load() {
		t.mu.Lock()
		if t.vitals.known {
			all = append(all, t.vitals.measured(name, &t.evidence))
		}
		t.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b measured) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (v *vitals) measured(name string, e *evidence) measured {
	s, t := &v.stats, &v.stats.Totals
	m := measured{
		Name: name, Calls: t.Calls, Succeeded: t.Succeeded, Attempts: t.Attempts, Retries: t.Retries, Hedges: t.Hedges,
		HedgesWon: t.HedgesWon, Unsent: t.Unsent, Failures: map[string]int64{}, Budget: s.Budget.Level, RetriesOff: s.RetriesOff,
		Latency: quantiles{
			millis(s.Latency.P50), millis(s.Latency.P95), millis(s.Latency.P99), millis(s.Latency.P999),
			s.Latency.Samples, float64(s.Latency.Span / time.Millisecond),
		},
		Took: e.took, Cut: e.cut, Opened: e.opened,
		State:    v.lead().Breaker.State.String(),
		Settings: settingsOf(v.policy.Clone()),
	}
	for _, r := range policy.Reasons() {
		if n := t.Failures.Of(r); n > 0 {
			m.Failures[r.String()] = n
		}
	}
	if b := s.Bulkhead; b.Limit > 0 {
		m.Slots = &slots{InUse: b.InUse, Limit: b.Limit, Queued: b.Queued, Queue: b.QueueLimit}
	}
	if s.Budget.Off {
		m.Budget = -1
	}
	return m
}
