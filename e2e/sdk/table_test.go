package sdk

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

var quiet = log.New(io.Discard, "", 0)

// subject is an SDK with one call of it, and the service that it speaks to.
type subject struct {
	name   string
	answer http.HandlerFunc
	fails  func(w http.ResponseWriter, status int)
	deny   http.HandlerFunc // nil: the service has no throttling in disguise

	// call makes one call over rt. With page, the SDK is set up as docs/http.md says
	// for use with gabion, and without as it comes.
	call func(ctx context.Context, url string, rt http.RoundTripper, page bool) error

	policy policy.Policy // that docs/http.md gives for it
	opts   []gabion.Option

	// more is by how many attempts gabion may exceed the SDK alone, or the three of its
	// policy where the SDK does not retry: as the page says, and under an SDK and a policy
	// that were both left as they come.
	more struct{ page, asIs int }
}

// faults are the plans that every subject meets.
var faults = []struct {
	name string
	plan []fault
}{
	{"nothing", []fault{fine}},
	{"refused once", []fault{refused, fine}},
	{"refused twice", []fault{refused, refused, fine}},
	{"refused for ever", []fault{refused}},
	{"reset before the work, once", []fault{resetBefore, fine}},
	{"reset before the work, twice", []fault{resetBefore, resetBefore, fine}},
	{"reset before the work, for ever", []fault{resetBefore}},
	{"reset after the work, once", []fault{resetAfter, fine}},
	{"reset after the work, for ever", []fault{resetAfter}},
	{"429 once", []fault{tooMany, fine}},
	{"429 twice", []fault{tooMany, tooMany, fine}},
	{"429 for ever", []fault{tooMany}},
	{"429 with Retry-After", []fault{tooManyAfter, fine}},
	{"429 with Retry-After-Ms", []fault{tooManyAfterMs, tooManyAfterMs, fine}},
	{"503 once", []fault{unavailable, fine}},
	{"503 twice", []fault{unavailable, unavailable, fine}},
	{"503 with Retry-After", []fault{unavailableAfter, fine}},
	{"503 for ever", []fault{unavailable}},
	{"502 with Retry-After", []fault{badGateway, fine}},
	{"529 twice", []fault{overloaded, overloaded, fine}},
	{"529 for ever", []fault{overloaded}},
	{"500 once", []fault{failed, fine}},
	{"500 twice", []fault{failed, failed, fine}},
	{"500 for ever", []fault{failed}},
	{"409 once", []fault{conflict, fine}},
	{"slow, then fine", []fault{slow, fine}},
	{"slow for ever", []fault{slow}},
	{"half an answer, once", []fault{cut, fine}},
	{"half an answer, for ever", []fault{cut}},
	{"one of each", []fault{refused, unavailable, fine}},
	{"throttled in disguise", []fault{disguised, fine}},
}

// arrangements are how an SDK can be used.
const (
	alone = iota // without gabion
	paged        // with gabion, both as docs/http.md says
	asIs         // with gabion, neither touched
)

// run makes one call under one plan.
func (s *subject) run(t testing.TB, plan []fault, how int) seen {
	w := &wire{plan: plan, answer: s.answer, fails: s.fails, deny: s.deny}
	url, base := w.start(t)
	var rt http.RoundTripper = base
	switch how {
	case alone:
		base.ResponseHeaderTimeout = patience
	case paged:
		rt = &gabionhttp.Transport{Dependency: gabion.New(s.name, patient(s.policy), s.opts...), Base: base}
	case asIs:
		rt = &gabionhttp.Transport{Dependency: gabion.New(s.name, patient(policy.Policy{})), Base: base}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := s.call(ctx, url, rt, how == paged)
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen{err, w.attempts, w.requests, w.effects}
}

// patient gives attempts as long as the SDK alone has, and as many: each call here is
// the first of its dependency, for which the default budget has one re-send.
func patient(p policy.Policy) policy.Policy {
	p.Timeout.Attempt = patience
	p.Retry.Budget = policy.Budget{Shape: policy.BudgetWindow}
	p.Retry.Backoff = backoff.Full(100*time.Millisecond, 30*time.Second)
	return p
}

// atOnce bounds how many calls run together: they mostly wait.
var atOnce = make(chan struct{}, 24)

// TestNoSDKIsWorseOffWithGabion is the table: every SDK, every fault, alone and with
// gabion. It fails if gabion turns a success into a failure, does work more often, or
// sends more than the SDK alone by more than is said.
func TestNoSDKIsWorseOffWithGabion(t *testing.T) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range subjects() {
		all.Go(func() { s.meetAll(t) })
	}
}

// meetAll makes the call under every fault, in every arrangement.
func (s *subject) meetAll(t *testing.T) {
	t.Run(s.name, func(t *testing.T) {
		var wg sync.WaitGroup
		for _, f := range faults {
			if f.plan[0] == disguised && s.deny == nil {
				continue
			}
			wg.Go(func() {
				var got [3]seen
				var each sync.WaitGroup
				for how := range got {
					each.Go(func() {
						atOnce <- struct{}{}
						defer func() { <-atOnce }()
						got[how] = s.run(t, f.plan, how)
					})
				}
				each.Wait()
				t.Logf("%-32s alone %v | page %v | as is %v", f.name, got[alone], got[paged], got[asIs])
				s.compare(t, f.name+", as the page says", got[alone], got[paged], s.more.page)
				s.compare(t, f.name+", left as they come", got[alone], got[asIs], s.more.asIs)
			})
		}
		wg.Wait()
	})
}

func (s *subject) compare(t testing.TB, name string, alone, with seen, more int) {
	var worse []string
	if alone.err == nil && with.err != nil && alone.effects < 2 { // what was done twice is no success to be matched
		worse = append(worse, fmt.Sprintf("it failed: %v", with.err))
	}
	if with.effects > max(alone.effects, 1) {
		worse = append(worse, "the work was done more often")
	}
	if with.attempts > max(alone.attempts, 3)+more {
		worse = append(worse, "it sent more")
	}
	if worse != nil {
		t.Errorf("%s: %s: %q\nalone: %v (%v)\nwith:  %v (%v)", s.name, name, worse, alone, alone.err, with, with.err)
	}
}
