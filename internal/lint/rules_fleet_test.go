package lint

import "testing"

func TestRulesOfFleets(t *testing.T) {
	tryRule(t, "G082", []specimen{
		{"a turn every five seconds", "{rate_limit: {rate: 10/s, max_wait: 1s}, fleet: {rate: true}, facts: {processes: 50}}", "warning", "a: 10/s / 50 processes: each has a turn every 5s, and a call waits for 1s at most"},
		{"calls that never wait", "{rate_limit: {rate: 1000/s, max_wait: off}, fleet: {rate: true}, facts: {processes: 50}}", "silent", ""},
		{"calls that wait as long as they may", "{rate_limit: {rate: 10/s}, fleet: {rate: true}, facts: {processes: 50}}", "silent", ""},
		{"a limit of each", "{rate_limit: {rate: 10/s, max_wait: 1s}, facts: {processes: 50}}", "silent", ""},
		{"fewer slots than processes", "{bulkhead: {limit: 20}, fleet: {slots: true}, facts: {processes: 50}}", "warning", "a: 20 slots for 50 processes: some have none"},
		{"as many slots", "{bulkhead: {limit: 50}, fleet: {slots: true}, facts: {processes: 50}}", "silent", ""},
		{"a quota below a call", "{rate_limit: {quotas: [20000 tokens/1m estimate 900]}, fleet: {quotas: true}, facts: {processes: 50}}", "warning", "a: 20000 tokens / 50 processes = 400, and one call uses 900"},
		{"a quota of several calls", "{rate_limit: {quotas: [200000 tokens/1m estimate 900]}, fleet: {quotas: true}, facts: {processes: 50}}", "silent", ""},
		{"not said", "{rate_limit: {rate: 10/s}, fleet: {rate: true}}", "unknown facts.processes", ""},
	})
	tryRule(t, "G083", []specimen{
		{"learned", "{bulkhead: {limit: learned}, fleet: {slots: true}}", "note", "a: the limit is learned, so what is shared is max 1000 (default)"},
		{"a number", "{bulkhead: {limit: 50}, fleet: {slots: true}}", "silent", ""},
		{"learned by each", "{bulkhead: {limit: learned}}", "silent", ""},
	})
	tryRule(t, "G084", []specimen{
		{"two and a half times the whole", "{rate_limit: {rate: 1000/s}, fleet: {rate: true, lost: 5%}, facts: {processes: 50}}", "warning", "a: lost 5% × 50 processes = 250% of the whole while the store is away"},
		{"the whole", "{rate_limit: {rate: 1000/s}, fleet: {rate: true, lost: 2%}, facts: {processes: 50}}", "silent", ""},
		{"the last share", "{rate_limit: {rate: 1000/s}, fleet: {rate: true}, facts: {processes: 50}}", "silent", ""},
		{"nothing", "{rate_limit: {rate: 1000/s}, fleet: {rate: true, lost: off}, facts: {processes: 50}}", "silent", ""},
		{"not said", "{rate_limit: {rate: 1000/s}, fleet: {rate: true, lost: 5%}}", "unknown facts.processes", ""},
	})
}
