package lab

import (
	"math"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/foreign/export"
	"github.com/gabion-go/gabion/internal/foreign/formats"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// exportWorld has a fault of a kind, and policies that a mesh has rules for.
const exportWorld = `version: 1
title: Exports
duration: 90s
warmup: 20s
clients:
  shop: {count: 5, rate: 100/s, deadline: 10s, calls: [{to: stock, network: 1ms}]}
services:
  stock: {workers: 1000, time: lognormal 20ms/100ms}
policies:
  stock: {POLICY}
faults:
  - {kind: errors, service: stock, at: 40s, for: 20s, share: SHARE, status: 503}
`

const exportPolicy = "safe: true, timeout: {call: 10s, attempt: 1s, last: 1s, strict: true, margin: off}, retry: {attempts: 3, hold: off, " +
	"backoff: {base: 25ms, cap: 250ms}, budget: {shape: share, ratio: 20%, min_in_flight: 3}}, breaker: off, bulkhead: {limit: 500, queue: off}"

// What a mesh sends by an export is within 5 % of what the policy sends, where the table says that the policy's
// budget and waits are kept.
func TestAMeshSendsWhatThePolicySends(t *testing.T) {
	f, err := config.Parse("stock", []byte("version: 1\ndependencies: {stock: {"+exportPolicy+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"envoy", "istio"} {
		theirs := exported(t, format, f.Policies["stock"])
		for _, share := range []string{"100%", "30%", "5%"} {
			s, err := Parse("exports", []byte(strings.NewReplacer("POLICY", exportPolicy, "SHARE", share).Replace(exportWorld)))
			if err != nil {
				t.Fatal(err)
			}
			ours := load(t, s, Options{Alone: true, Replications: 2})
			mesh := load(t, s, Options{Alone: true, Replications: 2, Theirs: theirs})
			t.Logf("%s, %s of the answers fail: %.3f× by the policy, %.3f× by the mesh", format, share, ours, mesh)
			if math.Abs(mesh/ours-1) > 0.05 {
				t.Errorf("%s, %s of the answers fail: the load is %.3f× by the policy, and %.3f× by the mesh", format, share, ours, mesh)
			}
		}
	}
}

// The defaults as a mesh has them, where all work is safe: its budget counts the retries that wait, up to 1s, and
// has few requests in flight to count them by. So it sends at most what the policy sends, and within 5 % of it only
// where few answers fail.
func TestAMeshSendsNoMoreThanTheDefaults(t *testing.T) {
	for _, format := range []string{"envoy", "istio"} {
		theirs := exported(t, format, policy.Policy{Safe: true})
		for share, least := range map[string]float64{"100%": 0.3, "30%": 0.75, "5%": 0.95} {
			s, err := Parse("exports", []byte(strings.NewReplacer("POLICY", "safe: true", "SHARE", share).Replace(exportWorld)))
			if err != nil {
				t.Fatal(err)
			}
			ours := load(t, s, Options{Alone: true, Replications: 2})
			mesh := load(t, s, Options{Alone: true, Replications: 2, Theirs: theirs})
			t.Logf("%s, %s of the answers fail: %.3f× by the policy, %.3f× by the mesh", format, share, ours, mesh)
			if mesh > 1.05*ours || mesh < least*ours {
				t.Errorf("%s, %s of the answers fail: the load is %.3f× by the policy, and %.3f× by the mesh", format, share, ours, mesh)
			}
		}
	}
}

// exported is what a mesh plays by the export of a policy, as its reader reads it.
func exported(t *testing.T, format string, p policy.Policy) *Foreign {
	t.Helper()
	to, err := export.Find(format)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := formats.Find(format)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(to.Write(export.Dependency{Name: "stock", Policy: p}).Text)
	doc, trees, found := yamlstrict.Trees(format, text)
	in := reader.Read(&foreign.File{Name: format, Text: text, Document: doc, Documents: trees})
	if len(found) > 0 || len(in.Routes) == 0 { // the first is for reads
		t.Fatal(found, in.Routes)
	}
	return &Foreign{Name: format, Policies: map[string]policy.Policy{"stock": in.Routes[0].Plays}}
}

// load is how many attempts there are for a call while the fault lasts.
func load(t *testing.T, s *Scenario, o Options) float64 {
	t.Helper()
	report, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	mean, _, err := report.Metric(0, "amplification", "stock", "during")
	if err != nil {
		t.Fatal(err)
	}
	return mean.Value
}
