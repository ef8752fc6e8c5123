package ratelimitservice

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

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
