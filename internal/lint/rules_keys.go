package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// keyRules are about what may be repeated at all.
var keyRules = []Rule{
	{
		ID: "G001", Name: "unsafe-retry", Severity: Error, Needs: []string{"facts.writes"},
		Title: "calls that change something may be repeated without a key",
		reads: []string{"safe", "key", "retry.attempts", "hedge"},
		when:  func(s *subject) bool { return s.p.Safe && s.p.Key == policy.KeyDeclared && (s.retries() || s.hedges()) },
		check: (*subject).unsafeRetry,
	},
	{
		ID: "G002", Name: "write-without-key", Severity: Note, Needs: []string{"facts.writes"},
		Title: "calls that change something may have no key, and are then made once",
		reads: []string{"safe", "key", "retry.attempts"},
		when:  func(s *subject) bool { return !s.p.Safe && s.p.Key == policy.KeyDeclared && s.retries() },
		check: (*subject).writeWithoutKey,
	},
	{
		ID: "G005", Name: "retry-of-permanent", Severity: Warning,
		Title: "answers that stay as they are however often one asks are retried",
		reads: []string{"http.transient", "grpc.transient", "retry.attempts"},
		check: (*subject).retryOfPermanent,
	},
	{
		ID: "G045", Name: "passing-is-permanent", Severity: Warning,
		Title: "answers that pass are never tried again",
		reads: []string{"http.permanent", "grpc.permanent", "retry.attempts"},
		when:  (*subject).retries,
		check: (*subject).passingIsPermanent,
	},
	{
		ID: "G037", Name: "retention-too-short", Severity: Error, Needs: []string{"facts.key_retention"},
		Title: "the dependency forgets a key while the call may still be repeated",
		reads: []string{"key", "safe", "timeout.call", "timeout.attempt", "retry.attempts", "retry.backoff"},
		when:  func(s *subject) bool { return !s.p.Safe && s.retries() },
		check: (*subject).retentionTooShort,
	},
	{
		ID: "G038", Name: "key-made-below-a-retry", Severity: Note, Needs: []string{"facts.writes"},
		Title: "each try of a caller gets a key of its own",
		reads: []string{"key"},
		when:  func(s *subject) bool { return s.p.Key == policy.KeyMade },
		check: (*subject).keyMadeBelowARetry,
	},
}

func (s *subject) unsafeRetry() {
	if !s.facts.Writes {
		return
	}
	n := formulas.Sends(s.p)
	s.find("safe", fmt.Sprintf("safe: true lets gabion repeat all calls, and facts.writes says that they change something: a call without a key whose answer is lost may be carried out %s", times(n)),
		"write safe: false, and give each call a key (key: required), or leave facts.writes out if a repetition changes nothing", s.set("safe", "false"))
}

// times writes how often: once, twice, 3 times.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}

func (s *subject) writeWithoutKey() {
	if !s.facts.Writes {
		return
	}
	s.find("key", fmt.Sprintf("calls change something and need no key: one without a key is made once, whatever %s says, and if its answer is lost its outcome is unknown",
		s.count("retry.attempts", s.p.Retry.Attempts, "attempt")),
		"write key: required, and give each call a key")
}

// passing are statuses of 4xx that can be different the next time.
var passing = []int{408, 425, 429}

// held are statuses of 4xx that say that another request holds the resource.
var held = []int{409, 423}

// lasting are gRPC codes that stay as they are.
var lasting = []policy.GRPCCode{
	grpccode.InvalidArgument, grpccode.NotFound, grpccode.AlreadyExists, grpccode.PermissionDenied,
	grpccode.FailedPrecondition, grpccode.OutOfRange, grpccode.Unimplemented, grpccode.Unauthenticated,
}

func (s *subject) retryOfPermanent() {
	if !s.retries() {
		return
	}
	var bad, others, fine []string
	for _, status := range s.p.HTTP.Transient {
		text := strconv.Itoa(status)
		client := status >= 400 && status < 500 && !slices.Contains(passing, status)
		switch {
		case client && slices.Contains(held, status):
			others, fine = append(others, text), append(fine, text)
		case client, status == 501, status == 505:
			bad = append(bad, text)
		default:
			fine = append(fine, text)
		}
	}
	if len(bad) > 0 {
		s.findPermanent("http.transient", bad, fine)
	}
	if len(others) > 0 {
		s.findAs(Note, "http.transient", fmt.Sprintf("%s is retried with the waits of retry.backoff and counts as a failure of the dependency, although it works",
			strings.Join(others, ", ")), "let the dependency say 503 or 429 with Retry-After, or keep it if it always passes")
	}
	bad, fine = divided(s.p.GRPC.Transient, policy.GRPCCode.String, func(code policy.GRPCCode) bool { return slices.Contains(lasting, code) })
	if len(bad) > 0 {
		s.findPermanent("grpc.transient", bad, fine)
	}
}

// soonOver are statuses of trouble that is over soon, mostly: no room, no server, a limit.
var soonOver = []int{429, 502, 503, 504}

func (s *subject) passingIsPermanent() {
	bad, fine := divided(s.p.HTTP.Permanent, strconv.Itoa, func(status int) bool { return slices.Contains(soonOver, status) })
	s.findPassing("http.permanent", bad, fine)
	bad, fine = divided(s.p.GRPC.Permanent, policy.GRPCCode.String, func(code policy.GRPCCode) bool {
		return code == grpccode.Unavailable || code == grpccode.ResourceExhausted
	})
	s.findPassing("grpc.permanent", bad, fine)
}

// divided writes what is bad and the rest.
func divided[T any](all []T, text func(T) string, isBad func(T) bool) (bad, fine []string) {
	for _, one := range all {
		if isBad(one) {
			bad = append(bad, text(one))
		} else {
			fine = append(fine, text(one))
		}
	}
	return bad, fine
}

func (s *subject) findPassing(path string, bad, fine []string) {
	if len(bad) == 0 {
		return
	}
	list := "[" + strings.Join(fine, ", ") + "]"
	s.find(path, fmt.Sprintf("an answer of %s ends a call at once: a restart or a limit that is over in a second fails calls that the next of %s would save",
		strings.Join(bad, " or "), s.count("retry.attempts", s.p.Retry.Attempts, "attempt")), fmt.Sprintf("write %s: %s", path, list))
}

func (s *subject) findPermanent(path string, bad, fine []string) {
	list := "[" + strings.Join(fine, ", ") + "]"
	s.find(path, fmt.Sprintf("%s will be the answer to each of %s, and each counts as a failure for the breaker",
		strings.Join(bad, ", "), s.count("retry.attempts", s.p.Retry.Attempts, "attempt")),
		fmt.Sprintf("write %s: %s", path, list), s.set(path, list))
}

func (s *subject) retentionTooShort() {
	horizon, kept := formulas.Worst(s.p), s.facts.KeyRetention
	if kept > horizon {
		return
	}
	how := Error
	if s.p.Key == policy.KeyDeclared {
		how = Warning
	}
	path, says := "timeout.call", "timeout.call "+s.time("timeout.call", horizon)
	if s.p.Timeout.Call <= 0 {
		says = "the longest call, " + span(horizon)
	}
	proposal := "let it remember keys for longer"
	if formulas.Bounded(horizon) {
		proposal += " than " + span(horizon) + ", better a day"
	}
	s.findAs(how, path, fmt.Sprintf("%s ≥ facts.key_retention %s: an attempt at the end of the call comes after its key is forgotten, and is carried out again",
		says, policy.FormatDuration(kept)), proposal)
}

func (s *subject) keyMadeBelowARetry() {
	switch {
	case !s.facts.Writes:
	case s.facts.Queue:
		s.findAs(Warning, "key", "key: made gives each call a new key, and facts.queue says that calls come from a queue: a message that is delivered twice is carried out twice",
			"write key: required, and take the key from the message")
	default:
		s.find("key", "key: made gives each call a new key: a caller that tries again, or a user who clicks twice, is carried out twice",
			"write key: required, and make the key where the intent begins")
	}
}
