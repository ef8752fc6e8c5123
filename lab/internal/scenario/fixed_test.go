package scenario

import (
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

// layered is an SDK above a database: its attempts are the calls of the policy below.
const layered = `version: 1
title: x
duration: 60s
clients:
  shop: {count: 4, rate: 40/s, calls: [{to: sdk, fixed: true}]}
services:
  sdk: {time: 10us, calls: [{to: db}]}
  db: {time: 1ms}
faults:
  - {kind: errors, service: db, at: 10s, for: 40s, share: 50%}
policies:
  sdk: {safe: true, timeout: {call: 5s}, breaker: off, retry: {attempts: 7, backoff: {base: 1ms}, budget: off}}
  db: {safe: true, timeout: {call: 1s, attempt: 500ms}}
`

func TestAFixedPolicyIsTheScenariosOnEverySide(t *testing.T) {
	file, err := config.Parse("other.yaml", []byte("version: 1\ndependencies:\n  sdk: {retry: {attempts: 2}}\n  db: {retry: {attempts: 2}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	once := func(p policy.Policy) policy.Policy { p.Retry.Attempts = 1; return p }
	for fact, c := range map[string]struct {
		side Policies
		db   int // attempts
	}{
		"the scenario's own":                   {Policies{}, 3},
		"the plain client":                     {Policies{Rival: "plain"}, 1},
		"a policy in place of all":             {Policies{Name: "once", Change: once}, 1},
		"a file with a dependency of its name": {Policies{File: file}, 2},
		"a sweep that changes every policy": {Policies{Edit: func(_ string, p policy.Policy) (policy.Policy, error) {
			p.Retry.Attempts = 5
			return p, nil
		}}, 5},
	} {
		f, err := Parse("layered", []byte(layered))
		if err != nil {
			t.Fatal(err)
		}
		w, err := f.world(&c.side, asItIs)
		if err != nil {
			t.Fatalf("%s: %v", fact, err)
		}
		if n := w.rules["sdk"].Policy.Retry.Attempts; n != 7 {
			t.Errorf("%s: the SDK makes %d attempts, and its policy is fixed", fact, n)
		}
		if n := w.rules["db"].Policy.Retry.Attempts; n != c.db {
			t.Errorf("%s: the policy below makes %d attempts, want %d", fact, n, c.db)
		}
	}
}

// What is compared is the defaults, whatever a fixed policy says.
func TestAFixedPolicyLeavesDefaultsTheDefaults(t *testing.T) {
	f, err := Parse("layered", []byte(layered))
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.world(&Policies{}, asItIs)
	if err != nil || !w.usual {
		t.Errorf("the policy under test is not the defaults: %v", err)
	}
}
