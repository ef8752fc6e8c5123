package ratelimitservice

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

var checkout = Descriptor{{"service", "shop"}, {"path", "/checkout"}}

func dial(t *testing.T, f *service) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(f.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// until waits for what comes soon.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to this: " + what)
		}
	}
}

func (f *service) told() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

func (f *service) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func TestTheServiceDecides(t *testing.T) {
	f := &service{code: codeOK, left: 5, reset: time.Hour}
	f.serve(t)
	l := &Limiter{Conn: dial(t, f), Domain: "shop", Wait: 10 * time.Second}
	ctx := t.Context()
	for i := range 5 {
		if err := l.Ask(ctx, 1, checkout); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	err := l.Ask(ctx, 1, checkout)
	over, ok := errors.AsType[*OverLimit](err)
	if !ok || over.RetryAfter <= 59*time.Minute || over.RetryAfter > time.Hour || over.Domain != "shop" {
		t.Fatalf("%v, want an OverLimit for an hour", err)
	}
	if out := classify.Error(err); out.Class != policy.ClassThrottled || !out.Undone || !out.HasAfter {
		t.Errorf("it means %+v", out)
	}
	asked := l.Stats().Asked
	for range 100 {
		if l.Ask(ctx, 1, checkout) == nil {
			t.Fatal("a refusal is not kept")
		}
	}
	if got := l.Stats(); got.Asked > asked+1 || got.Refused != 101 {
		t.Errorf("%+v, and %d questions before", got, asked)
	}
	until(t, "all five are told", func() bool { return f.told() == 5 })
	if err := l.Ask(ctx, 1, Descriptor{{"service", "other"}}); err == nil {
		t.Error("the service has none left for others either, and was waited for")
	}
	f.mu.Lock()
	in := f.asked[0]
	f.mu.Unlock()
	if got := in.String(); got == "" || in.Get(in.Descriptor().Fields().ByName("domain")).String() != "shop" {
		t.Errorf("asked %s", got)
	}
	d := in.Get(in.Descriptor().Fields().ByName("descriptors")).List().Get(0).Message()
	e := d.Get(d.Descriptor().Fields().ByName("entries")).List()
	last := e.Get(1).Message()
	if e.Len() != 2 || last.Get(last.Descriptor().Fields().ByName("value")).String() != "/checkout" {
		t.Errorf("asked %s", in)
	}
}

// Without a Wait the answer counts for the calls that follow, and each hit goes to the service once.
func TestNoCallWaitsAndAllHitsAreTold(t *testing.T) {
	hold := make(chan struct{})
	f := &service{code: codeOK, left: -1, reset: time.Hour, hold: hold}
	f.serve(t)
	l := &Limiter{Conn: dial(t, f), Domain: "shop", Timeout: time.Minute}
	for range 50 {
		if err := l.Ask(t.Context(), 2, checkout); err != nil {
			t.Fatal(err) // it would hang here if it waited
		}
	}
	close(hold)
	until(t, "all hits are told", func() bool { return f.told() == 100 })
	if n := l.Stats().Asked; n > 3 {
		t.Errorf("%d questions for calls that came while one was out", n)
	}
}

func TestAWaitEnds(t *testing.T) {
	f := &service{code: codeOver, left: -1, reset: time.Hour, hold: make(chan struct{})}
	f.serve(t)
	l := &Limiter{Conn: dial(t, f), Domain: "shop", Wait: time.Millisecond, Timeout: time.Minute}
	if err := l.Ask(t.Context(), 1, checkout); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	l.Wait = time.Hour // before its next use, by one goroutine
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Ask(ctx, 1, checkout); err != nil {
		t.Errorf("after the end of its context: %v", err)
	}
	close(f.hold)
}

// A service that is away limits nothing, and is asked once a second whether it is back.
func TestTheServiceDiesAndReturns(t *testing.T) {
	f := &service{code: codeOver, left: -1, reset: 50 * time.Millisecond}
	f.serve(t)
	l := &Limiter{Conn: dial(t, f), Domain: "shop", Wait: 5 * time.Second}
	if l.Ask(t.Context(), 1, checkout) == nil {
		t.Fatal("it is over, and was waited for")
	}
	f.server.Stop()
	until(t, "calls are let through", func() bool { return l.Ask(t.Context(), 1, checkout) == nil && l.Stats().Failed > 0 })
	failed := l.Stats().Failed
	for range 1000 {
		if err := l.Ask(t.Context(), 1, checkout); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Stats().Failed; n > failed+2 {
		t.Errorf("%d questions to a service that is away", n-failed)
	}
	f.serve(t)
	f.set(func() { f.reset = time.Hour })
	until(t, "it decides again", func() bool { return l.Ask(t.Context(), 1, checkout) != nil })
}

// A question that fails at once is not followed by another one because calls came while it failed.
func TestAFailureIsFollowedByAPause(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var a allowance
	a.admit(now, 1)
	if !a.ask(now) || a.take() != 1 {
		t.Fatal("it does not ask")
	}
	a.fail(now)
	for range 3 { // before the goroutine that asked looks again
		a.admit(now, 1)
		if a.ask(now) {
			t.Error("it asks while it pauses")
		}
	}
	if hits := a.take(); hits != 0 {
		t.Errorf("%d hits are asked for while it pauses", hits)
	}
	if a.admit(now.Add(pause), 1); !a.ask(now.Add(pause)) {
		t.Error("it does not ask after the pause")
	}
}

// Calls that come while the first question is out get what its answer leaves, and no more.
func TestCallsThatWaitTogetherShareWhatIsLeft(t *testing.T) {
	f := &service{code: codeOK, left: 10, reset: time.Hour, hold: make(chan struct{})}
	f.serve(t)
	l := &Limiter{Conn: dial(t, f), Domain: "shop", Wait: time.Minute, Timeout: time.Minute}
	answers := make(chan error)
	ask := func() { answers <- l.Ask(t.Context(), 1, checkout) }
	go ask()
	until(t, "the service is asked about the first", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		a := l.keys[keyOf([]Descriptor{checkout})]
		return a != nil && a.asking && a.pending == 0
	})
	const others = 50
	for range others {
		go ask()
	}
	until(t, "the others wait", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.keys[keyOf([]Descriptor{checkout})].pending == others
	})
	close(f.hold)
	through := 0
	for range others + 1 {
		if err := <-answers; err == nil {
			through++
		} else if over, ok := errors.AsType[*OverLimit](err); !ok || over.RetryAfter <= 59*time.Minute {
			t.Errorf("%v, want an OverLimit for an hour", err)
		}
	}
	if through != 10 {
		t.Errorf("%d were let through, and 10 are allowed", through)
	}
}

// What a caller sends to others is not for the rate limit service.
func TestTheCallersMetadataStayWithTheCaller(t *testing.T) {
	f := &service{code: codeOK, left: -1}
	f.serve(t)
	l := &Limiter{Conn: dial(t, f), Domain: "shop", Wait: time.Minute}
	if err := l.Ask(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret"), 1, checkout); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := f.metadata.Get("authorization"); len(got) != 0 {
		t.Errorf("the service got %q", got)
	}
}

// With more combinations than are kept, it is looked once a second whether one of them can go, and not for each call.
func TestTooManyCombinations(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := &Limiter{}
	for i := range mostKeys {
		l.of(strconv.Itoa(i), now).until = now.Add(time.Minute)
	}
	if l.of("new", now) != nil {
		t.Fatal("too many are kept")
	}
	l.keys["0"].until = now
	if l.of("new", now.Add(sweeps-1)) != nil {
		t.Error("all are looked at again at once")
	}
	if l.of("new", now.Add(sweeps)) == nil || len(l.keys) != mostKeys {
		t.Error("one that is idle does not make room")
	}
}

func TestALimiterOfNothing(t *testing.T) {
	for _, l := range []*Limiter{nil, {}} {
		if err := l.Ask(t.Context(), 1, checkout); err != nil {
			t.Error(err)
		}
	}
	if keyOf([]Descriptor{{{"a", "b"}, {"c", "d"}}}) == keyOf([]Descriptor{{{"a", "b"}}, {{"c", "d"}}}) || keyOf([]Descriptor{{{"1:a", ""}}}) == keyOf([]Descriptor{{{"", "1:a"}}}) {
		t.Error("other descriptors, and the same key")
	}
}

func TestAnswersThatAreOdd(t *testing.T) {
	for fact, text := range map[string]string{"cut off": "\x08", "a status cut off": "\x12\x05\x08\x01", "a duration cut off": "\x12\x03\x22\x01\x08"} {
		if err := (wire{}).Unmarshal([]byte(text), new(answer)); err == nil {
			t.Errorf("%s: no error", fact)
		}
	}
	for fact, c := range map[string]struct {
		a    answer
		want time.Duration
	}{
		"no statuses":       {answer{code: codeOver}, time.Second},
		"the longest":       {answer{code: codeOver, statuses: []status{{code: codeOver, reset: time.Minute}, {code: codeOver, reset: time.Hour}, {code: codeOK, reset: 3 * time.Hour}}}, time.Hour},
		"least left":        {answer{code: codeOK, statuses: []status{{code: codeOK, limited: true, left: 9, reset: time.Hour}, {code: codeOK, limited: true, left: 3, reset: time.Minute}}}, time.Minute},
		"longer than known": {answer{code: codeOver, statuses: []status{{code: codeOver, reset: 900 * 24 * time.Hour}}}, longest},
	} {
		if after, _, _ := c.a.bounds(); after != c.want {
			t.Errorf("%s: %v, want %v", fact, after, c.want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x08\x02\x12\x06\x08\x02\x22\x02\x08\x05"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a answer
		if (wire{}).Unmarshal(data, &a) != nil {
			return
		}
		if after, _, _ := a.bounds(); after <= 0 || after > longest {
			t.Errorf("it counts for %v", after)
		}
	})
}
