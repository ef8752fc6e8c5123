package grpcconfig

import (
	"fmt"
	"math"
	"slices"

	"github.com/gabion-go/gabion/internal/grpccode"
)

// remark notes what means something else here, once for the whole config.
func (r *reader) remark(read []methodConfig, f map[string]*node, o Options) {
	var retry, hedge *resending
	groups := 0
	for i := range read {
		m := &read[i]
		if len(m.names) > 0 && (m.retry != nil || m.hedge != nil) {
			groups++
		}
		if retry == nil {
			retry = m.retry
		}
		if hedge == nil {
			hedge = m.hedge
		}
		r.ofGRPC(m, o)
	}
	r.onSafety(retry, hedge)
	if retry != nil {
		r.note(retry.fields["initialBackoff"].at, false,
			"retryPolicy: gRPC waits for ±20 % of its backoff, here a wait is drawn between zero and the whole, half of it on average",
			"double retry.backoff.base for the same average")
	}
	if hedge != nil {
		r.note(hedge.at.at, false, "hedgingPolicy: grpc-go has no hedging and ignores it, gabion hedges", "")
	}
	r.onThrottling(groups, retry != nil || hedge != nil)
	for _, key := range []string{"loadBalancingConfig", "loadBalancingPolicy", "healthCheckConfig"} {
		if at := f[key]; at != nil {
			r.noteOf(Stays, at.at, key+" stays gRPC's", "pass it on in a service config of its own")
		}
	}
	if len(r.config.Methods) > 0 && !o.Exact {
		r.onAttempts(read)
		r.onAdditions(read, retry != nil || hedge != nil)
	}
}

// onAttempts: gRPC has no timeout of one attempt. Here its end would be retried, so there is
// one only where the config retries DEADLINE_EXCEEDED.
func (r *reader) onAttempts(read []methodConfig) {
	without, with := false, false
	for i := range read {
		for _, s := range []*resending{read[i].retry, read[i].hedge} {
			switch {
			case s == nil:
			case slices.Contains(s.codes, grpccode.DeadlineExceeded):
				if !with {
					r.note(s.at.at, false, "timeout.attempt: gRPC has no timeout of one attempt; gabion has, and retries what ran into it, as DEADLINE_EXCEEDED is listed", "write timeout.attempt: off for none")
				}
				with = true
			case !without:
				r.note(s.at.at, false, "timeout.attempt: off, as in gRPC: gabion would retry what ran into it, and DEADLINE_EXCEEDED is not listed", "write one, such as 1s, if that is harmless: an attempt that hangs takes the whole call")
				without = true
			}
		}
	}
}

// onSafety: gRPC repeats what is listed, whatever the method does.
func (r *reader) onSafety(retry, hedge *resending) {
	for _, s := range []*resending{retry, hedge} {
		if s == nil {
			continue
		}
		what := "retryPolicy: gRPC repeats"
		if s == hedge {
			what = "hedgingPolicy: gRPC sends twice"
		}
		r.note(s.at.at, false, "safe: "+what+" all methods that are named, whatever they do, also if an attempt may have had an effect; so this says safe: true",
			"is it true of each? Else leave safe out, and say it per call or with a key")
	}
}

// ofGRPC notes what a method config says to gRPC itself.
func (r *reader) ofGRPC(m *methodConfig, o Options) {
	options := map[string]string{
		"waitForReady":            "grpc.WaitForReady",
		"maxRequestMessageBytes":  "grpc.MaxCallSendMsgSize",
		"maxResponseMessageBytes": "grpc.MaxCallRecvMsgSize",
	}
	for _, key := range []string{"waitForReady", "maxRequestMessageBytes", "maxResponseMessageBytes"} {
		if at := m.fields[key]; at != nil {
			r.noteOf(Stays, at.at, key+" has no counterpart in a policy and stays gRPC's", "use the call option "+options[key])
		}
	}
	if at := m.fields["timeout"]; at != nil {
		r.note(at.at, false, "timeout is that of the whole call, with its retries and waits, as in gRPC; a stream has as much again from its header on, timeout.body", "")
	} else if len(m.names) > 0 && !o.Exact {
		r.note(m.at.at, false, "timeout: gRPC has none here; gabion's call timeout counts, 15s", "write timeout.call: off for none")
	}
}

// onThrottling: gRPC has one for each server name.
func (r *reader) onThrottling(groups int, used bool) {
	t := r.config.throttle
	if t == nil {
		return
	}
	if !used {
		r.note(t.at.at, false, "retryThrottling: nothing is retried or hedged, so it has no effect", "")
		return
	}
	if groups > 1 {
		r.note(t.at.at, false, fmt.Sprintf("retryThrottling: gRPC has one for all methods of a server, here each of the %d dependencies has its own, so tokens are there %d times", groups, groups),
			"make one method config of them, to share one")
	}
	if whole := math.Trunc(t.tokens); whole != t.tokens {
		r.note(t.tokensAt.at, false, fmt.Sprintf("retryThrottling.maxTokens: %s is %v here", clip(t.tokensAt.text), max(whole, 1)), "write a whole number")
	}
	switch rounded := math.Round(t.ratio*1000) / 1000; {
	case t.ratio > 1:
		r.note(t.ratioAt.at, false, "retryThrottling.tokenRatio: "+clip(t.ratioAt.text)+" is 1 here: more would bound nothing", "write at most 1")
	case rounded < leastPerToken:
		r.note(t.ratioAt.at, false, "retryThrottling.tokenRatio: "+clip(t.ratioAt.text)+" is 0.001 here", "write at least 0.001")
	case rounded != t.ratio:
		r.note(t.ratioAt.at, false, fmt.Sprintf("retryThrottling.tokenRatio: %s is %v here: three decimals count", clip(t.ratioAt.text), rounded), "")
	}
}

// onAdditions says what a policy has beside what the config says.
func (r *reader) onAdditions(read []methodConfig, resends bool) {
	at := read[0].at.at
	for i := range read {
		if len(read[i].names) > 0 {
			at = read[i].at.at
			break
		}
	}
	r.note(at, false, "timeout.idle: a stream that brings nothing for 30s while a caller waits for it is ended", "write timeout.idle: off for none")
	r.note(at, false, "breaker, bulkhead, pace: gabion adds them with their defaults", "write breaker: off, bulkhead: off, pace: off for none; the exact form does")
	if !resends {
		return
	}
	if r.config.throttle == nil {
		r.note(at, false, "retry.budget: there is no retryThrottling, so gabion's budget bounds retries", "write retry.budget: off for none; an outage is then multiplied by the attempts")
	}
	r.note(at, false, "retry.hold: a retry waits while the dependency fails for others, too; a pushback of more than retry.max_after, 30s, ends the call", "write retry.hold: off for none")
}
