package sim

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// saying is what a server says in place of one of the lab's answers.
type saying struct {
	fact   string
	answer answer
	after  time.Duration
	never  bool // nothing comes home
	server http.HandlerFunc
	absent bool // connections are refused
	lists  policy.HTTP
	codes  policy.GRPC
	posts  bool // as gRPC does, and the policy says what is safe
}

func says(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// cut breaks the connection when the request has arrived.
func cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // a reset and not an orderly end; either means the same
	_ = conn.Close()
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func sayings() []saying {
	return []saying{
		{fact: "an answer", answer: answered, server: says(200)},
		{fact: "no connection", answer: refused, absent: true},
		{fact: "a broken connection", answer: broken, server: cut},
		{fact: "no room", answer: busy, server: says(503)},
		{fact: "no room, and when to come back", answer: busy, after: time.Second, server: says(503, "Retry-After", "1")},
		{fact: "no room, as some APIs say it", answer: overloaded, server: says(529)},
		{fact: "a failure", answer: failed, server: says(500)},
		{fact: "too many requests", answer: throttled, server: says(429)},
		{fact: "too many requests, and when to come back", answer: throttled, after: time.Second, server: says(429, "Retry-After", "1")},
		{fact: "expired", answer: expired, server: says(504)},
		{fact: "a failure below", answer: badBelow, server: says(502)},
		{fact: "a failure below that must not be retried", answer: stopBelow, server: says(502, "X-Should-Retry", "false")},
		{fact: "a refusal before any work", answer: shed, after: time.Second, server: says(503, "Gabion-Refused", "queue-full", "Retry-After", "1")},
		{fact: "a refusal in an overload", answer: shedAll, after: time.Second, server: says(503, "Gabion-Refused", "too-long", "Retry-After", "1", "X-Should-Retry", "false")},
		{fact: "a deadline that passed before any work", answer: tooLate, server: says(504, "Gabion-Refused", "expired", "X-Should-Retry", "false")},
		{fact: "silence", never: true, server: hang},
	}
}

// TestStatusesMeanWhatTheyMeanOverHTTP does so for statuses that a scenario may name, with
// and without a word on when to come back, and with the policy's lists.
func TestStatusesMeanWhatTheyMeanOverHTTP(t *testing.T) {
	for _, status := range []int{400, 404, 408, 409, 425, 429, 500, 501, 502, 503, 504, 505, 520, 529, 599} {
		for i, lists := range []policy.HTTP{{}, {Transient: []int{404, 500, 501, 599}, Permanent: []int{429, 502, 503}}} {
			if i == 1 && testing.Short() {
				continue
			}
			s := saying{fact: strconv.Itoa(status), answer: answer(status), server: says(status), lists: lists}
			s.compare(t)
			if !NamesTime(status) || lists.Permanent != nil {
				continue
			}
			s.fact, s.after, s.server = s.fact+" and when to come back", time.Second, says(status, "Retry-After", "1")
			s.compare(t)
		}
	}
}

// TestCodesMeanWhatTheyMeanOverHTTP does so for the codes of gRPC, with the policy's lists and without.
func TestCodesMeanWhatTheyMeanOverHTTP(t *testing.T) {
	for i, word := range outcome.CodeWords() {
		for _, codes := range []policy.GRPC{{}, {
			Transient: []policy.GRPCCode{grpccode.Internal, grpccode.ResourceExhausted}, Permanent: []policy.GRPCCode{grpccode.Unavailable, grpccode.Aborted},
		}} {
			code := policy.GRPCCode(i + 1)
			s := saying{fact: word, answer: answer(outcome.OfCode(code)), posts: true, codes: codes, server: says(200, "Content-Type", "application/grpc", "Grpc-Status", strconv.Itoa(int(code)))}
			s.compare(t)
		}
	}
}

// TestAnswersMeanWhatTheyMeanOverHTTP makes the same call of a service of the lab
// and of a server, and wants the same decisions.
func TestAnswersMeanWhatTheyMeanOverHTTP(t *testing.T) {
	every := map[answer]bool{}
	for _, s := range sayings() {
		every[s.answer] = true
		s.compare(t)
	}
	for _, a := range []answer{answered, refused, broken, stopBelow, shed, shedAll, tooLate, throttled, failed, badBelow, busy, expired, overloaded} {
		if !every[a] {
			t.Errorf("answer %d is not compared with anything", a)
		}
	}
}

func (s *saying) compare(t *testing.T) {
	t.Helper()
	for i := range 4 {
		safe, trust := i&1 == 0, policy.Trust(i>>1)
		p := policy.Policy{
			Trust:    trust,
			HTTP:     s.lists,
			GRPC:     s.codes,
			Safe:     s.posts && safe,
			Timeout:  policy.Timeout{Call: 5 * time.Second, Attempt: 2 * time.Second},
			Retry:    policy.Retry{Attempts: 4, Backoff: backoff.Const(time.Millisecond), MaxAfter: 10 * time.Millisecond, Budget: policy.Budget{Off: true}},
			Breaker:  policy.Breaker{Off: true},
			Pace:     policy.Pace{Off: true},
			Bulkhead: policy.Bulkhead{Off: true},
		}
		p.Retry.Contention = policy.ContentionRetry{Attempts: 3, Backoff: backoff.Const(time.Millisecond)}
		if s.never {
			p.Timeout.Attempt = 20 * time.Millisecond
		}
		lab, live := s.inLab(t, p, safe), s.overHTTP(t, p, safe)
		if !slices.Equal(lab, live) {
			t.Errorf("%s, %s, safe to repeat %v:\nlab\n\t%s\nlive\n\t%s", s.fact, trust, safe, strings.Join(lab, "\n\t"), strings.Join(live, "\n\t"))
		}
	}
}

func decided(e policy.Event) string { return e.String() + ", effect " + e.Effect.String() }

func (s *saying) inLab(t *testing.T, p policy.Policy, safe bool) (log []string) {
	call := Recorded{Params: machine.Params{Safe: safe}}
	if !s.never {
		call.Answers = slices.Repeat([]Answer{{Took: time.Millisecond, Outcome: s.answer.outcome(s.after, &p)}}, 4)
	}
	w := &World{
		Duration: time.Second,
		Fleets: []Fleet{{Clients: 1, Loop: Trace, Calls: []Recorded{call}, Plan: Plan{
			Steps: []Step{{Edge: Edge{Rules: rules(t, p)}}},
		}}},
		Services: []Service{{}},
	}
	RunWatched(w, 1, &Watch{Tell: func(_ uint64, _ int, e policy.Event) { log = append(log, decided(e)) }})
	return log
}

func (s *saying) overHTTP(t *testing.T, p policy.Policy, safe bool) []string {
	server := httptest.NewServer(s.server)
	defer server.Close()
	if s.absent {
		server.Close()
	}
	var seen decisions
	transport := &gabionhttp.Transport{
		Dependency: gabion.New("server", p, gabion.WithObserver(&seen)),
		Base:       &http.Transport{DisableKeepAlives: true}, // net/http sends again by itself on connections that were used before
	}
	method := http.MethodPost
	if safe && !s.posts {
		method = http.MethodGet
	}
	req, err := http.NewRequest(method, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := transport.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
	}
	return seen.all()
}

// decisions keeps an observer's events.
type decisions struct {
	mu  sync.Mutex // guards log
	log []string
}

// Observe implements gabion.Observer.
func (d *decisions) Observe(_ context.Context, e gabion.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, decided(e))
}

func (d *decisions) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}
