package importcmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/grpcconfig"
	"github.com/gabion-go/gabion/policy"
)

// file writes policies as gabion's file. Only what a service config says is written; the
// rest has its default.
func file(name string, methods []grpcconfig.Method) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# from the gRPC service config %s\nversion: 1\ndependencies:\n", finding.Printable(name))
	if len(methods) == 0 {
		b.WriteString("  {}\n")
	}
	for _, m := range methods {
		fmt.Fprintf(&b, "  # %s\n  %s:\n", m.Spoken(), strconv.Quote(m.Dependency))
		for _, line := range settings(m.Policy) {
			b.WriteString("    " + line + "\n")
		}
	}
	return b.String()
}

// settings are the lines of one dependency.
func settings(p policy.Policy) (lines []string) {
	add := func(line string) { lines = append(lines, line) }
	if p.Safe {
		add("safe: true")
	}
	t := p.Timeout
	timeout := pairs("call", duration(t.Call), "attempt", duration(t.Attempt), "margin", duration(t.Margin), "idle", duration(t.Idle), "body", duration(t.Body))
	if timeout != "" {
		add("timeout: " + timeout)
	}
	if p.Hedge.Max > 0 {
		percentile := ""
		if p.Hedge.Percentile == policy.Off {
			percentile = "off"
		}
		add("hedge: " + pairs("max", count(p.Hedge.Max), "delay", duration(p.Hedge.Delay), "percentile", percentile))
	}
	lines = append(lines, retry(p.Retry)...)
	if grpc := pairs("transient", codes(p.GRPC.Transient), "permanent", codes(p.GRPC.Permanent)); grpc != "" {
		add("grpc: " + grpc)
	}
	for _, s := range []struct {
		name string
		off  bool
	}{{"pace", p.Pace.Off}, {"breaker", p.Breaker.Off}, {"bulkhead", p.Bulkhead.Off}} {
		if s.off {
			add(s.name + ": off")
		}
	}
	return lines
}

func retry(r policy.Retry) []string {
	lines := []string{"retry:", "  attempts: " + count(r.Attempts)}
	if b := waits(r.Backoff); b != "" {
		lines = append(lines, "  backoff: "+b)
	}
	if c := r.Contention; c.Attempts != 0 {
		lines = append(lines, "  contention: "+pairs("attempts", count(c.Attempts), "backoff", waits(c.Backoff)))
	}
	if r.Hold == policy.Off {
		lines = append(lines, "  hold: off")
	}
	if r.MaxAfter != 0 {
		lines = append(lines, "  max_after: "+duration(r.MaxAfter))
	}
	switch b := r.Budget; {
	case b.Off:
		lines = append(lines, "  budget: off")
	case b.Shape == policy.BudgetGRPC:
		lines = append(lines, "  budget: "+pairs("shape", b.Shape.String(), "capacity", count(b.Capacity), "ratio", b.Ratio.String()))
	}
	return lines
}

func waits(b backoff.Backoff) string { return pairs("base", duration(b.Base), "cap", duration(b.Cap)) }

// pairs writes keys with their values, without those that are empty; "" if all are.
func pairs(words ...string) string {
	var kept []string
	for i := 0; i < len(words); i += 2 {
		if words[i+1] != "" {
			kept = append(kept, words[i]+": "+words[i+1])
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return "{" + strings.Join(kept, ", ") + "}"
}

// duration is empty for the default.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return policy.FormatDuration(d)
}

func count(n int) string { return strconv.Itoa(n) }

func codes(list []policy.GRPCCode) string {
	var names []string
	for _, code := range list {
		names = append(names, code.String())
	}
	if len(names) == 0 {
		return ""
	}
	return "[" + strings.Join(names, ", ") + "]"
}
