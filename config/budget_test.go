package config

import (
	"testing"

	"github.com/gabion-go/gabion/policy"
)

func TestAFileSpellsEveryShapeOfABudget(t *testing.T) {
	for text, want := range map[string]policy.Budget{
		"{shape: earned, reserve: 0.5}":                                {Shape: policy.BudgetEarned, Reserve: 0.5},
		"{shape: window, floor: 2/s}":                                  {Shape: policy.BudgetWindow, Floor: 2},
		"{shape: tokens, capacity: 50}":                                {Shape: policy.BudgetTokens, Capacity: 50},
		"{shape: grpc, capacity: 100, ratio: 12.5%}":                   {Shape: policy.BudgetGRPC, Capacity: 100, Ratio: 0.125},
		"{shape: share, ratio: 25%, min_in_flight: 5}":                 {Shape: policy.BudgetShare, Ratio: 0.25, MinInFlight: 5},
		"{shape: share, ratio: off}":                                   {Shape: policy.BudgetShare, Ratio: policy.Off},
		"{shape: quota, cost: 5, timeout_cost: 10, throttled_cost: 5}": {Shape: policy.BudgetQuota, Cost: 5, TimeoutCost: 10, ThrottledCost: 5},
	} {
		f, err := Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  db:\n    retry: {budget: "+text+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.Policies["db"].Retry.Budget; got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
