package classify_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// hinting is an error that says something of itself, but no class.
type hinting struct {
	error
	says policy.Outcome
}

func (h hinting) Unwrap() error           { return h.error }
func (h hinting) Outcome() policy.Outcome { return h.says }

func TestWhatAnErrorSaysBesideItsClassIsKept(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	plain := classify.Error(refused)
	if !plain.NeverSent || plain.Class != policy.ClassNetwork {
		t.Fatalf("%+v", plain)
	}
	for name, c := range map[string]struct {
		says policy.Outcome
		want func(policy.Outcome) bool
	}{
		"it may have happened": {policy.Outcome{Effect: policy.UnknownEffect}, func(o policy.Outcome) bool { return !o.NeverSent && o.Effect == policy.UnknownEffect }},
		"stop":                 {policy.Outcome{Stop: true}, func(o policy.Outcome) bool { return o.Stop && o.NeverSent }},
		"fixed":                {policy.Outcome{Fixed: true}, func(o policy.Outcome) bool { return o.Fixed }},
		"after":                {policy.Outcome{HasAfter: true, After: 5}, func(o policy.Outcome) bool { return o.HasAfter && o.After == 5 }},
		"nothing":              {policy.Outcome{}, func(o policy.Outcome) bool { return o == plain }},
	} {
		for form, err := range map[string]error{
			"":         hinting{refused, c.says},
			", inside": hinting{hinting{refused, c.says}, policy.Outcome{}},
			", joined": joined{hinting{refused, c.says}},
		} {
			if o := classify.Error(err); o.Class != policy.ClassNetwork || !c.want(o) {
				t.Errorf("%s%s: %+v", name, form, o)
			}
		}
	}
}

type joined []error

func (joined) Error() string     { return "joined" }
func (j joined) Unwrap() []error { return j }
