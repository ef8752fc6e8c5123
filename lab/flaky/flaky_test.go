package flaky

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabiontest"
)

// running serves a plan on loopback.
func running(t *testing.T, plan string, o Options) (*Server, *http.Client, string) {
	t.Helper()
	gabiontest.NoLeaks(t)
	p, err := Parse("plan.yaml", []byte("version: 1\n"+plan))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	by := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		by.CloseIdleConnections()
		_ = s.Close()
		_ = s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s, by, "http://" + l.Addr().String() + "/"
}

// post returns what came of one request, in a word or two.
func post(by *http.Client, url, key string) string {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader("pay"))
	if err != nil {
		return err.Error()
	}
	req.GetBody = nil // net/http itself must not send it again
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := by.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return "reset"
	case err != nil:
		return err.Error()
	}
	defer resp.Body.Close()
	if _, err = io.ReadAll(resp.Body); err != nil {
		return fmt.Sprintf("%d, then %v", resp.StatusCode, err)
	}
	said := fmt.Sprint(resp.StatusCode)
	for _, h := range []string{"Retry-After", "X-Should-Retry", "Gabion-Refused", "Grpc-Status"} {
		if v := resp.Header.Get(h); v != "" {
			said += ", " + h + " " + v
		}
	}
	return said
}

func TestWhatEachFaultIsOnASocket(t *testing.T) {
	const now = "at: 0s, for: 1h"
	for _, c := range []struct {
		fact, plan, want string
		done             int64
	}{
		{"nothing is wrong", "", "200", 1},
		{"503 by default", "faults: [{kind: errors, " + now + "}]", "503", 0},
		{"a Retry-After is in whole seconds, and rounded up", "faults: [{kind: errors, status: 429, retry_after: 1500ms, " + now + "}]", "429, Retry-After 2", 0},
		{"529 stays one", "faults: [{kind: errors, status: 529, " + now + "}]", "529", 0},
		{"500 is a failure of the work", "faults: [{kind: errors, status: 500, " + now + "}]", "500", 0},
		{"a code of gRPC comes without a message", "faults: [{kind: errors, answers: [unavailable 100%], " + now + "}]", "200, Grpc-Status 14", 0},
		{"an error after the work", "faults: [{kind: errors, status: 503, after_work: true, " + now + "}]", "503", 1},
		{"a reset comes before the work", "faults: [{kind: reset, " + now + "}]", "reset", 0},
		{"an error that costs the work does none", "faults: [{kind: errors, costs_work: true, " + now + "}]", "503", 0},
		{"a reset that costs the work does none", "faults: [{kind: reset, costs_work: true, " + now + "}]", "reset", 0},
		{"a lost answer comes after it", "faults: [{kind: lost_answers, " + now + "}]", "reset", 1},
		{"an answer that breaks off has its header", "faults: [{kind: cut_body, " + now + "}]", "200, then unexpected EOF", 1},
		{"a slow body comes", "faults: [{kind: slow_body, add: 1ms, " + now + "}]", "200", 1},
		{"a rate limit", "service: {limit: {rate: 1/h, retry_after: 30s}}\nfaults: [{kind: rate_limit, limit: {rate: 1/h, burst: 1}, at: 0s, for: 1h}]", "200", 1},
		{"down for some is a broken connection", "faults: [{kind: down, share: 99.999%, " + now + "}]", "reset", 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s, by, url := running(t, c.plan, Options{})
			if got := post(by, url, ""); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if n := s.Counts(); n.Executions != c.done || n.Requests != 1 || n.Calls != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

func TestAFullQueueRefuses(t *testing.T) {
	s, by, url := running(t, "service: {workers: 1, time: 1h}", Options{})
	first := make(chan string, 1)
	go func() { first <- post(by, url, "") }()
	for s.Counts().Working == 0 {
		<-time.After(time.Millisecond) // until the other request is there
	}
	if got := post(by, url, ""); got != "503" {
		t.Errorf("got %s", got)
	}
	if n := s.Counts(); n.Full != 1 || n.Working != 1 || n.Executions != 0 {
		t.Errorf("%+v", n)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := <-first; got != "reset" {
		t.Errorf("a request that the server forgot got %s", got)
	}
	if n := s.Counts(); n.Requests != 0 || n.Working != 0 || n.Seconds != 0 {
		t.Errorf("%+v", n)
	}
}

func TestABlackHoleHoldsRequestsUntilTheyLeave(t *testing.T) {
	s, by, url := running(t, "faults: [{kind: black_hole, at: 0s, for: 1h}]", Options{})
	by.Timeout = 20 * time.Millisecond
	if got := post(by, url, ""); !strings.Contains(got, "Timeout") {
		t.Errorf("got %s", got)
	}
	for s.Counts().Gone == 0 {
		<-time.After(time.Millisecond) // until the server sees it
	}
	by.Timeout = 0
	held := make(chan string, 1)
	go func() { held <- post(by, url, "") }()
	for s.Counts().Silent < 2 {
		<-time.After(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := <-held; got != "reset" {
		t.Errorf("at the end it got %s", got)
	}
}

func TestWhoIsDownRefusesConnections(t *testing.T) {
	s, by, url := running(t, "faults: [{kind: down, at: 0s, for: 300ms}]", Options{})
	if resp, err := by.Get(url + "_flaky"); err != nil || resp.Body.Close() != nil {
		t.Fatal(err) // it serves now, and time has not begun
	}
	s.Start()
	if got := post(by, url, ""); got != "refused" {
		t.Errorf("got %s", got)
	}
	got := ""
	for end := time.Now().Add(10 * time.Second); got != "200" && time.Now().Before(end); {
		got = post(by, url, "")
	}
	if got != "200" || s.Counts().Executions != 1 {
		t.Errorf("after the outage: %s, %+v", got, s.Counts())
	}
}

func TestClosingWhileDown(t *testing.T) {
	_, by, url := running(t, "faults: [{kind: down, at: 0s, for: 1h}]", Options{})
	if got := post(by, url, ""); got != "reset" { // the first request begins the plan, and so must be able to come
		t.Errorf("got %s", got)
	}
	if got := post(by, url, ""); got != "refused" {
		t.Errorf("got %s", got)
	}
}

// The fate of a request depends on the seed, its key and which try it is, and not on what
// others do at the same time.
func TestTheSameKeysFailAlike(t *testing.T) {
	const plan = "faults: [{kind: errors, share: 50%, at: 0s, for: 1h}, {kind: lost_answers, share: 30%, at: 0s, for: 1h}]"
	fates := func(seed uint64, backwards bool) (all []string) {
		_, by, url := running(t, plan, Options{Seed: seed})
		all = make([]string, 60)
		var each sync.WaitGroup
		for i := range all {
			if backwards {
				i = len(all) - 1 - i
			}
			each.Go(func() {
				for range 2 {
					all[i] += post(by, url, fmt.Sprint("key ", i)) + " "
				}
			})
			if i%8 == 0 {
				each.Wait()
			}
		}
		each.Wait()
		return all
	}
	one := fates(1, false)
	if again := fates(1, true); !slices.Equal(one, again) {
		t.Errorf("once\n%q\nand again\n%q", one, again)
	}
	if other := fates(2, false); slices.Equal(one, other) {
		t.Error("another seed changes nothing")
	}
}

func TestExecutionsUnderAKey(t *testing.T) {
	for _, c := range []struct {
		plan                            string
		executions, duplicates, replays int64
	}{
		{"faults: [{kind: lost_answers, at: 0s, for: 1h}]", 3, 2, 0},
		{"service: {honours_keys: true}\nfaults: [{kind: lost_answers, at: 0s, for: 1h}]", 1, 0, 2},
	} {
		s, by, url := running(t, c.plan, Options{})
		for range 3 {
			post(by, url, "order 7")
		}
		n := s.Counts()
		want := []KeyCount{{"order 7", 3, c.executions}}
		if n.Executions != c.executions || n.Duplicates != c.duplicates || n.Replays != c.replays || !slices.Equal(n.Keys, want) || n.Amplification != 3 {
			t.Errorf("%s: %+v", c.plan, n)
		}
	}
}

func TestCountsAreServed(t *testing.T) {
	_, by, url := running(t, "title: x\nfaults: [{kind: errors, share: 99.999%, at: 0s, for: 1h}]", Options{Seed: 3})
	post(by, url, "a")
	read := func(method string) (c Counts, status int) {
		t.Helper()
		req, _ := http.NewRequest(method, url+"_flaky", nil)
		resp, err := by.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == 200 && json.NewDecoder(resp.Body).Decode(&c) != nil {
			t.Error("no JSON")
		}
		return c, resp.StatusCode
	}
	c, _ := read(http.MethodGet)
	if c.Requests != 1 || c.Answers["503"] != 1 || c.Seed != 3 || len(c.Wrong) != 1 || c.Version != CountsVersion {
		t.Errorf("%+v", c)
	}
	if c, _ = read(http.MethodDelete); c.Requests != 0 || len(c.Wrong) != 0 {
		t.Errorf("after a DELETE: %+v", c)
	}
	if _, status := read(http.MethodPost); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}

func TestAHandlerAnswersWhatIsWorkedOn(t *testing.T) {
	var mu sync.Mutex // guards bodies
	var bodies []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
		w.WriteHeader(http.StatusCreated)
	})
	_, by, url := running(t, "", Options{Handler: handler})
	seen := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(bodies) }
	if got := post(by, url, ""); got != "201" || !slices.Equal(seen(), []string{"pay"}) {
		t.Errorf("%s, %q", got, seen())
	}
	_, by, url = running(t, "faults: [{kind: lost_answers, at: 0s, for: 1h}]", Options{Handler: handler})
	if got := post(by, url, ""); got != "reset" || len(seen()) != 2 {
		t.Errorf("%s, %q", got, seen())
	}
	_, by, url = running(t, "faults: [{kind: errors, at: 0s, for: 1h}]", Options{Handler: handler})
	if got := post(by, url, ""); got != "503" || len(seen()) != 2 {
		t.Errorf("%s, %q", got, seen())
	}
}

// A recorder, as in tests of handlers, has no connection to break.
func TestWithoutAConnection(t *testing.T) {
	p, err := Parse("p", []byte("version: 1\nfaults: [{kind: reset, at: 0s, for: 1h}]"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("it does not end as net/http wants it")
		}
	}()
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
}

func TestLoad(t *testing.T) {
	for _, c := range []struct{ name, service, wrong string }{
		{"error-storm", "db", ""},
		{"layered-retries", "db", ""},
		{"error-strom", "", `did you mean "error-storm"`},
		{"./nothing.yaml", "", "no such file"},
	} {
		p, err := Load(c.name)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), "error-storm") && !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v", c.name, err)
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.wrong == "" && len(p.Faults()) == 0:
			t.Errorf("%s: %s has no faults", c.name, p.Service())
		}
	}
	p, err := Load("error-storm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Of("bd"); err == nil || !strings.Contains(err.Error(), "db") {
		t.Errorf("a service that is not there: %v", err)
	}
}

// To fail costs a worker the time of the work: the second request waits for it.
func TestAFailureCanCostTheWork(t *testing.T) {
	for _, kind := range []string{"errors", "reset"} {
		s, by, url := running(t, "service: {workers: 1, queue: 1, time: 1h}\nfaults: [{kind: "+kind+", costs_work: true, at: 0s, for: 2h}]", Options{})
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { post(by, url, "") })
		}
		for n := s.Counts(); n.Working+n.Queued < 2; n = s.Counts() {
			<-time.After(time.Millisecond) // until both are there
		}
		if n := s.Counts(); n.Working != 1 || n.Queued != 1 {
			t.Errorf("%s: %+v", kind, n)
		}
		_ = s.Close()
		both.Wait()
	}
}

// The work of a caller who has left is done: by the handler, too.
func TestTheHandlerWorksOnForACallerWhoHasLeft(t *testing.T) {
	worked := make(chan error, 1)
	s, by, url := running(t, "service: {workers: 1, time: 200ms}", Options{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		worked <- r.Context().Err()
	})})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := by.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	for s.Counts().Working == 0 {
		<-time.After(time.Millisecond) // until it is there
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := <-worked; err != nil {
		t.Errorf("the handler's context: %v", err)
	}
	if n := s.Counts(); n.Executions != 1 || n.Gone != 1 || len(n.Answers) != 0 {
		t.Errorf("%+v", n)
	}
}
