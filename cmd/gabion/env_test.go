package main

import (
	"bytes"
	"strings"
	"testing"
)

// What a variable holds may be a password: neither the manual page, nor help, nor what is
// said of a wrong flag shows it.
func TestHelpShowsNothingOfTheEnvironment(t *testing.T) {
	const secret = "postgres://till:hunter2@db.internal/keys"
	t.Setenv("GABION_STORE", secret)
	for _, args := range []string{
		"man", "completion bash", "idempotency -h",
		"idempotency ls -h", "idempotency show -h", "idempotency resolve -h", "idempotency forget -h",
		"idempotency ls --no-such-flag",
	} {
		var out bytes.Buffer
		run(t.Context(), strings.Fields(args), &out, &out)
		if out.Len() == 0 || strings.Contains(out.String(), "hunter2") {
			t.Errorf("gabion %s prints the store of the environment, or nothing: %.200s", args, &out)
		}
	}
}

func TestTheStoreIsTakenFromTheEnvironment(t *testing.T) {
	t.Setenv("GABION_STORE", "bolt:/nowhere/of-the-variable.db")
	for args, want := range map[string]string{
		"idempotency ls": "of-the-variable.db",
		"idempotency ls --store bolt:/nowhere/flag.db": "flag.db",
		"idempotency ls --store=":                      "--store is missing",
	} {
		var out bytes.Buffer
		if run(t.Context(), strings.Fields(args), &out, &out); !strings.Contains(out.String(), want) {
			t.Errorf("gabion %s says %.200q, want %q", args, &out, want)
		}
	}
}
