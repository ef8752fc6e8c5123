package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		fact, args     string
		code           int
		stdout, stderr string // what they contain
	}{
		{"nothing shows help, as a mistake", "", 2, "", "usage: gabion"},
		{"help lists the commands", "help", 0, "demo", ""},
		{"--help too", "--help", 0, "schema", ""},
		{"help on a command is the command's", "help demo", 0, "usage: gabion demo", ""},
		{"help on config", "help config", 0, "usage: gabion config", ""},
		{"help on a verb of config", "help config explain", 0, "usage: gabion config", ""},
		{"help on schema", "help schema", 0, "usage: gabion schema", ""},
		{"help on version", "help version", 0, "usage: gabion version", ""},
		{"help on help", "help help", 0, "usage: gabion <command>", ""},
		{"help on a slip", "--help dmeo", 2, "", `did you mean "demo"?`},
		{"a slip is corrected", "dmeo", 2, "", `did you mean "demo"?`},
		{"so is another", "schemas", 2, "", `did you mean "schema"?`},
		{"so is one of lab's", "lab lsit", 2, "", `unknown command "lsit"; did you mean "list"?`},
		{"and a longer one", "lab tornament", 2, "", `did you mean "tournament"?`},
		{"lab's nonsense is not", "lab xyzzy", 2, "", "unknown command \"xyzzy\"\n"},
		{"nonsense is not", "xyzzy", 2, "", `unknown command "xyzzy"`},
		{"version", "version", 0, "gabion ", ""},
		{"--version too", "--version", 0, "gabion ", ""},
		{"version takes nothing", "version now", 2, "", "now"},
		{"a flag of demo that does not exist", "demo --fast", 2, "", "-fast"},
		{"a plan that is not the demo's own", "demo --print-plan --plan x", 2, "", "free-failures"},
		{"demo -h", "demo -h", 0, "--print-plan", ""},
		{"explain", "explain", 0, "budget_exhausted", ""},
		{"page without a recording", "page", 2, "", "no recording is named"},
		{"explain a reason", "explain paced", 0, "What to do:", ""},
		{"explain a slip", "explain breaker_opn", 2, "", "breaker_open?"},
		{"schema", "schema", 0, "$schema", ""},
		{"completion without a shell", "completion", 2, "", "name one shell: bash, fish, powershell, zsh"},
		{"completion for an unknown shell", "completion tcsh", 2, "", "name one shell"},
		{"completion -h", "completion -h", 0, "source <(gabion completion bash)", ""},
		{"man takes nothing", "man 1", 2, "", "not expected"},
		{"help on a slip of completion", "compeltion", 2, "", `did you mean "completion"?`},
		{"config without a verb", "config", 2, "", "usage"},
		{"deadletter without a verb", "deadletter", 2, "", "usage: gabion deadletter"},
		{"help on a verb of deadletter", "help deadletter redrive", 0, "usage: gabion deadletter redrive", ""},
		{"config check of what is not there", "config check /nowhere.yaml", 3, "", "no such file"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.fact, code, c.code)
		}
		for _, s := range []struct {
			got  *bytes.Buffer
			want string
		}{{&stdout, c.stdout}, {&stderr, c.stderr}} {
			if s.want == "" && s.got.Len() > 0 || !strings.Contains(s.got.String(), s.want) {
				t.Errorf("%s: got %q, want %q", c.fact, s.got, s.want)
			}
		}
	}
}
