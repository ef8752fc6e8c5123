package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
)

// gabionsAlone is gabion's client with the default policy.
func gabionsAlone(url string) client {
	return newGabion(url, newPayments(Settings{Seed: 1}))
}

func TestClientsAgainstOneFault(t *testing.T) {
	for _, c := range []struct {
		fact     string
		build    func(string) client
		plan     string
		ok       bool
		reason   string
		attempts int
		charged  int
		patient  bool
	}{
		{"loop: one attempt when all is well", newHand, healthy, true, "", 1, 1, false},
		{"loop: five attempts at a 503", newHand, always("errors"), false, "503", 5, 0, false},
		{"loop: a lost answer is charged five times", newHand, always("lost_answers"), false, "reset", 5, 5, false},
		{"loop: a 429 is an answer like any other", newHand, always("errors, status: 429"), false, "429", 1, 0, false},
		{"keyed loop: a lost answer is charged once", newKeyedHand, always("lost_answers"), false, "reset", 0, 1, false},
		{"library: a lost answer is charged once", newLibrary, always("lost_answers"), false, "", 0, 1, true},
		{"library: one attempt when all is well", newLibrary, healthy, true, "", 1, 1, false},
		{"gabion: one attempt when all is well", gabionsAlone, healthy, true, "", 1, 1, false},
		{"gabion: a lost answer is charged once", gabionsAlone, always("lost_answers"), false, "", 0, 1, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			t.Parallel()
			for try := 1; ; try++ {
				p := providerWith(t, c.plan)
				cl := c.build(p.url())
				begun := time.Now()
				ctx, stop := context.WithCancel(t.Context())
				if c.patient { // its waits add up to three minutes, and two attempts show it
					go stopAfter(p, 2, stop)
				}
				got := cl.charge(ctx, Order{Number: 3, Amount: 100})
				stop()
				took := time.Since(begun)
				cl.close()
				attempts, charged := len(p.seen()), charges(t, p, 3)
				if got.ok == c.ok && (c.reason == "" || got.reason == c.reason) && (c.attempts == 0 || attempts == c.attempts) && charged == c.charged {
					return
				}
				if took < handTimeout+time.Duration(c.attempts)*handWait || try == 10 { // else an attempt's time was up: so slow is the machine
					t.Fatalf("after %v and %d attempts: %+v and %d charges", took, attempts, got, charged)
				}
			}
		})
	}
}

// stopAfter calls stop when the provider has seen that number of requests.
func stopAfter(p *provider, requests int, stop func()) {
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for len(p.seen()) < requests {
		<-every.C
	}
	stop()
}

func TestGabionAdmitsThatALostChargeMayHaveHappened(t *testing.T) {
	p := providerWith(t, always("lost_answers"))
	cl := gabionsAlone(p.url())
	defer cl.close()
	if got := cl.charge(context.Background(), Order{Number: 1}); got.ok || got.denies || got.reason == "" {
		t.Errorf("got %+v", got)
	}
}

func TestGabionSaysThatNothingHappenedWhenNobodyWasThere(t *testing.T) {
	url := fmt.Sprintf("http://127.0.0.1:%d/charges", testservers.FreePorts(t, 1)[0])
	cl := gabionsAlone(url)
	defer cl.close()
	if got := cl.charge(context.Background(), Order{Number: 1}); got.ok || !got.denies {
		t.Errorf("got %+v", got)
	}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "canceled"},
		{context.DeadlineExceeded, "timeout"},
		{os.ErrDeadlineExceeded, "timeout"},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "reset"},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refused"},
		{fmt.Errorf("post: %w", io.EOF), "broken off"},
		{io.ErrUnexpectedEOF, "broken off"},
		{os.ErrPermission, "other"},
	} {
		if got := why(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
}
