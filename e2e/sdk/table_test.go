package sdk

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
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

	throttle http.HandlerFunc // under load; nil: 429
	reads    bool             // the call changes nothing, and may be made more often than alone

	connect func(link) call // makes a client

	policy policy.Policy // that docs/http.md gives for it

	// module says that the SDK calls through a module of gabion's for it, and not through a
	// transport.
	module bool

	// more is by how many attempts gabion may exceed the SDK alone, or the three of its
	// policy where the SDK does not retry: as the page says, and under an SDK and a policy
	// that were both left as they come.
	more struct{ page, asIs int }

	// worse are the faults in which a new client fails where the SDK alone does not,
	// because the default budget has one re-send for it: with the page's policy but for
	// the budget, and as both come. With the page's whole policy there must be none.
	worse struct{ frugal, asIs []string }
}

// link is how a client reaches its service.
type link struct {
	url    string
	rt     http.RoundTripper
	page   bool               // the SDK is set up as docs/http.md says for use with gabion, and not as it comes
	module *gabion.Dependency // that it calls through, if it has a module of gabion's
}

// call makes the n-th call of a client.
type call func(ctx context.Context, n int) error

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
	alone  = iota // without gabion
	paged         // with gabion, both as docs/http.md says
	frugal        // with gabion, as docs/http.md says, but with the default budget
	asIs          // with gabion, neither touched
)

// run makes one call under one plan.
func (s *subject) run(t testing.TB, plan []fault, how int) seen {
	w := &wire{plan: plan, answer: s.answer, fails: s.fails, deny: s.deny}
	url, base := w.start(t)
	if how == alone {
		base.ResponseHeaderTimeout = patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := s.connect(s.linked(url, base, how, patience))(ctx, 7)
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen{err, w.attempts, w.requests, w.effects}
}

// linked puts gabion between a client and a transport. Zero for attempt is its default.
func (s *subject) linked(url string, base http.RoundTripper, how int, attempt time.Duration, opts ...gabion.Option) link {
	p := s.policy
	switch how {
	case alone:
		return link{url: url, rt: base}
	case frugal:
		p.Retry.Budget = policy.Budget{}
	case asIs:
		p = policy.Policy{}
	}
	p.Timeout.Attempt = attempt
	d := gabion.New(s.name, p, opts...)
	l := link{url: url, rt: base, page: how != asIs}
	if s.module {
		l.module = d
	} else {
		l.rt = &gabionhttp.Transport{Dependency: d, Base: base}
	}
	return l
}

// atOnce bounds how many calls run together: they mostly wait.
var atOnce = make(chan struct{}, 24)

// TestNoSDKIsWorseOffWithGabion is the table: every SDK, every fault, alone and with
// gabion. It fails if gabion turns a success into a failure, does work more often, or
// sends more than the SDK alone by more than is said. Two rows more show the default budget,
// under which exactly the faults that are named fail.
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
			wg.Go(func() { s.meet(t, f.name, f.plan) })
		}
		wg.Wait()
	})
}

func (s *subject) meet(t *testing.T, name string, plan []fault) {
	var got [4]seen
	var each sync.WaitGroup
	for how := range got {
		each.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			got[how] = s.run(t, plan, how)
		})
	}
	each.Wait()
	t.Logf("%-32s alone %v | page %v | with the default budget %v | as is %v", name, got[alone], got[paged], got[frugal], got[asIs])
	s.compare(t, name+", as the page says", got[alone], got[paged], s.more.page, false)
	s.compare(t, name+", with the default budget", got[alone], got[frugal], s.more.page, slices.Contains(s.worse.frugal, name))
	s.compare(t, name+", left as they come", got[alone], got[asIs], s.more.asIs, slices.Contains(s.worse.asIs, name))
}

// compare fails the test if gabion made the call worse. Where it is known to fail, it fails
// if it does not, so that the page stays true.
func (s *subject) compare(t testing.TB, name string, alone, with seen, more int, fails bool) {
	var worse []string
	good := alone.err == nil && (alone.effects < 2 || s.reads) // what was done twice is no success to be matched
	failed := good && with.err != nil
	if failed && !fails {
		worse = append(worse, fmt.Sprintf("it failed: %v", with.err))
	}
	if fails && !failed {
		worse = append(worse, "it did not fail, and docs/http.md says that it does")
	}
	if with.effects > max(alone.effects, 1) && !s.reads {
		worse = append(worse, "the work was done more often")
	}
	if with.attempts > max(alone.attempts, 3)+more {
		worse = append(worse, "it sent more")
	}
	if worse != nil {
		t.Errorf("%s: %s: %q\nalone: %v (%v)\nwith:  %v (%v)", s.name, name, worse, alone, alone.err, with, with.err)
	}
}
