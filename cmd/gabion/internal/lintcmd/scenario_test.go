package lintcmd

import (
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

const layers = `version: 1
title: Two layers
duration: 5m
clients: {shop: {count: 10, rate: 100/s, calls: [{to: orders, propagate: true}]}}
services:
  orders: {calls: [{to: db}]}
  db: {time: 20ms}
policies:
  orders: {safe: true, retry: {budget: off}, timeout: {call: 5s, attempt: 2s}} # gabion:ignore G070 two layers are what this is about
  db: {safe: true, retry: {budget: off}, timeout: {call: 1s}}
`

// A scenario of the lab is looked at by its policies and by who calls whom, in its own places.
func TestAScenarioIsLookedAt(t *testing.T) {
	apart := strings.Replace(strings.Replace(layers, "# gabion:ignore G070 two layers are what this is about", "", 1), "{to: orders, propagate: true}", "{to: orders}", 1)
	dir := folder(t, map[string]string{"layers.yaml": layers, "apart.yaml": apart, "broken.yaml": strings.Replace(apart, "rate: 100/s", "rate: 100", 1)})
	for _, c := range []struct {
		fact, args, stdin string
		code              int
		stdout            []string
	}{
		{"ignored where the attempts would stand", "--severity warning --rules G070,G077 layers.yaml", "", cli.ExitOK, nil},
		{"of two mistakes both are found", "--severity warning --rules G070,G077 --format github apart.yaml", "", cli.ExitFindings, []string{"file=apart.yaml,line=4", "G070", "3 × 3 = 9 attempts at db", "G077"}},
		{"from standard input", "--severity warning --rules G077 --format github -", apart, cli.ExitFindings, []string{"file=stdin,line=4", "G077"}},
		{"a broken one", "--severity warning --rules G000,G077 --format github broken.yaml", "", cli.ExitFindings, []string{"G000", "G077"}},
		{"beside a policy file", "--severity warning --rules G070,G077 --format github layers.yaml apart.yaml", "", cli.ExitFindings, []string{"file=apart.yaml"}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			code, stdout, stderr := ask(t, dir, c.stdin, c.args)
			if code != c.code {
				t.Errorf("code %d, want %d: %s%s", code, c.code, stdout, stderr)
			}
			for _, want := range c.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("said\n%s\nnot %s", stdout, want)
				}
			}
			if c.stdout == nil && strings.Contains(stdout, "G07") {
				t.Errorf("said\n%s", stdout)
			}
		})
	}
}
