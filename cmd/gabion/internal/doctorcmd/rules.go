package doctorcmd

import "github.com/gabion-go/gabion/lint"

// The lint rules behind what is measured.
const (
	ruleTimeout   = "G031" // timeout-cuts-healthy
	ruleFar       = "G032" // timeout-far-above
	ruleBudget    = "G021" // budget-without-income
	ruleUnsafe    = "G002" // write-without-key
	ruleFlap      = "G017" // breaker-trips-by-chance
	ruleBulkhead  = "G029" // bulkhead-too-small
	ruleWide      = "G026" // bulkhead-above-pool
	ruleRetention = "G037" // retention-too-short
)

// page is where a rule is explained.
func page(rule string) string { return lint.Rule{ID: rule}.Page() }
