package lab

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testgolden"
)

// budgetWorld has two fleets with as many calls each: few clients with many calls, and many
// with few. What they call can do far more than they ask, so that nothing but its faults
// fails, and they have no breaker, so that nothing but the budget bounds their retries.
const budgetWorld = `version: 1
title: Budgets
duration: 2m
warmup: 30s
clients:
  busy: {count: 5, rate: 100/s, deadline: 10s, calls: [{to: busy-db, network: 1ms}]}
  sparse: {count: 1000, rate: 100/s, deadline: 10s, calls: [{to: sparse-db, network: 1ms}]}
services:
  busy-db: {workers: 1000, time: lognormal 20ms/100ms}
  sparse-db: {workers: 1000, time: lognormal 20ms/100ms}
policies:
  busy-db: {safe: true, timeout: {call: 10s, attempt: 1s}, breaker: off, retry: {budget: BUDGET}}
  sparse-db: {safe: true, timeout: {call: 10s, attempt: 1s}, breaker: off, retry: {budget: BUDGET}}
faults:
  - {kind: errors, service: busy-db, at: 1m, for: LASTS, share: SHARE, status: 503}
  - {kind: errors, service: sparse-db, at: 1m, for: LASTS, share: SHARE, status: 503}
`

// TestTheTableOfBudgets runs the lab for each row of the table in docs/budgets.md.
func TestTheTableOfBudgets(t *testing.T) {
	const page, begins, ends = "../docs/budgets.md", "<!-- written by: cd lab && go test -run TableOfBudgets . -args -update -->\n", "<!-- end -->\n"
	table := strings.Builder{}
	table.WriteString("| budget | load in an outage: busy, sparse | answered of a blip: busy, sparse | answered at 10 % errors: busy, sparse |\n|---|--:|--:|--:|\n")
	for _, shape := range []string{"earned", "window", "tokens", "grpc", "share", "quota", "off"} {
		budget := "{shape: " + shape + "}"
		if shape == "off" {
			budget = shape
		}
		outage := runBudget(t, budget, "30s", "100%")
		blip := runBudget(t, budget, "2s", "100%")
		steady := runBudget(t, budget, "30s", "10%")
		fmt.Fprintf(&table, "| `%s` | %.2f, %.2f | %.0f, %.0f %% | %.1f, %.1f %% |\n", shape, outage("amplification", "busy-db"), outage("amplification", "sparse-db"),
			100*blip("goodput", "busy"), 100*blip("goodput", "sparse"), 100*steady("goodput", "busy"), 100*steady("goodput", "sparse"))
	}
	testgolden.Part(t, page, begins, ends, table.String())
}

// runBudget runs the world once, and returns what its figures are in the time of trouble.
func runBudget(t *testing.T, budget, lasts, share string) (figure func(metric, of string) float64) {
	t.Helper()
	s, err := Parse("budgets", []byte(strings.NewReplacer("BUDGET", budget, "LASTS", lasts, "SHARE", share).Replace(budgetWorld)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), Options{Alone: true, Replications: 1})
	if err != nil {
		t.Fatal(err)
	}
	return func(metric, of string) float64 {
		mean, _, err := r.Metric(0, metric, of, "during")
		if err != nil {
			t.Fatal(err)
		}
		return mean.Value
	}
}
