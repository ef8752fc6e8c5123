package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// The kinds of calls: reads may be repeated, writes may not, and those with a key may.
var kinds = []string{"read", "write", "keyed", "stream that reads", "stream that writes"}

// load is one kind of calls, with a dependency and a connection of its own.
type load struct {
	kind   string
	dep    *gabion.Dependency
	client pb.TestServiceClient
	close  func() error

	mu    sync.Mutex
	ended map[string]error // by id of the call
}

// impatient has all that the default has, and shorter times.
func impatient() policy.Policy {
	return policy.Policy{
		Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: 2 * time.Second},
		Retry:   policy.Retry{Backoff: backoff.Full(5*time.Millisecond, 50*time.Millisecond)},
		Breaker: policy.Breaker{Consecutive: 10, Open: 50 * time.Millisecond},
	}
}

func begin(t *testing.T, kind, addr string) *load {
	t.Helper()
	p := impatient()
	if kind == "read" {
		p.Breaker = policy.Breaker{Off: true} // the budget alone has to bound them
	}
	l := &load{kind: kind, dep: gabion.New(kind, p), ended: map[string]error{}}
	c := &gabiongrpc.Client{Dependency: l.dep, Idempotent: func(method string) bool {
		return method == "/grpc.testing.TestService/EmptyCall" || method == stream
	}}
	conn, err := grpc.NewClient(addr, append(c.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()), soon)...)
	if err != nil {
		t.Fatal(err)
	}
	l.client, l.close = pb.NewTestServiceClient(conn), conn.Close
	return l
}

// call makes one call.
func (l *load) call(ctx context.Context, id string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, requestID, l.kind+"/"+id)
	switch l.kind {
	case "read":
		_, err := l.client.EmptyCall(ctx, &pb.Empty{})
		return err
	case "write":
		_, err := l.client.UnaryCall(ctx, &pb.SimpleRequest{})
		return err
	case "keyed":
		_, err := l.client.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(id)}}, gabiongrpc.With(gabion.WithKey(id)))
		return err
	case "stream that reads":
		in, err := l.client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		if err != nil {
			return err
		}
		return readAll(in)
	}
	out, err := l.client.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		if out.Send(&pb.StreamingInputCallRequest{}) != nil { // CloseAndRecv says why
			break
		}
	}
	_, err = out.CloseAndRecv()
	return err
}

var errGarbled = errors.New("the stream has not the messages that were sent")

func readAll(in pb.TestService_StreamingOutputCallClient) error {
	for n := 0; ; n++ {
		m, err := in.Recv()
		switch {
		case err == io.EOF && n == streamed:
			return nil
		case err == io.EOF, err == nil && (n >= streamed || m.GetPayload().GetBody()[0] != byte(n)):
			return fmt.Errorf("%w: message %d", errGarbled, n)
		case err != nil:
			return err
		}
	}
}

// work makes calls until stop ends. With a key it asks again until it is known how the call ended, as a
// client that needs to know does.
func (l *load) work(ctx, stop context.Context, worker int, p *progress) {
	for n := 0; stop.Err() == nil; n++ {
		id := fmt.Sprint(worker, "-", n)
		err := l.call(ctx, id)
		p.note(l.kind, err)
		for l.kind == "keyed" && err != nil && ctx.Err() == nil {
			takes(ctx, 5*time.Millisecond)
			err = l.call(ctx, id)
			p.note(l.kind, err)
		}
		l.mu.Lock()
		l.ended[id] = err
		l.mu.Unlock()
		if err != nil {
			takes(ctx, 2*time.Millisecond)
		}
	}
}

// Servers that are killed and come back, twice broken, under load of all kinds: what is not
// safe is carried out once at most, and never if the error says so; what has a key exactly
// once; repeating adds no more than the budget; breakers open, and close again; and nothing
// is held in the end.
func TestServersThatAreKilledUnderLoad(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := startChild(t)
	p := newProgress()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop, halt := context.WithCancel(ctx)
	defer halt()
	var loads []*load
	var working sync.WaitGroup
	for _, kind := range kinds {
		l := begin(t, kind, server.addr)
		defer l.close()
		loads = append(loads, l)
		for worker := range 3 {
			working.Go(func() { l.work(ctx, stop, worker, p) })
		}
	}
	for range 2 {
		p.until(t, 30, well, kinds...)
		server.kill()
		p.until(t, 20, failed, kinds...)
		server.start(true)
		p.until(t, 40, broken, "read")
		server.kill()
		server.start(false)
		p.until(t, 30, well, kinds...)
		server.kill() // back at once
		server.start(false)
	}
	p.until(t, 60, well, kinds...)
	halt()
	working.Wait()
	opened := false
	for _, l := range loads {
		opened = l.check(t, server) || opened
		if err := l.close(); err != nil {
			t.Error(err)
		}
		gabiontest.NothingHeld(t, l.dep)
	}
	if !opened {
		t.Error("no breaker ever opened")
	}
}

// check compares what the calls were told with what the server did. It reports whether the
// breaker was ever open.
func (l *load) check(t *testing.T, server *child) (opened bool) {
	t.Helper()
	came, did := server.read()
	effects := did
	if l.kind == "keyed" {
		effects = server.effects()
	}
	good, arrived := 0, 0
	for id, err := range l.ended {
		name := id
		if l.kind != "keyed" {
			name = l.kind + "/" + id
		}
		arrived += came[l.kind+"/"+id]
		n := effects[name]
		switch safe := l.kind == "read" || l.kind == "stream that reads"; {
		case errors.Is(err, errGarbled):
			t.Errorf("%s %s: %v", l.kind, id, err)
		case err == nil && n < 1, !safe && n > 1:
			t.Errorf("%s %s was carried out %d times: %v", l.kind, id, n, err)
		case err != nil && gabion.EffectOf(err) == policy.NoEffect && n > 0:
			t.Errorf("%s %s was carried out %d times, and the error says never: %v", l.kind, id, n, err)
		case l.kind == "keyed" && (err != nil || n != 1):
			t.Errorf("key %s: %d times, %v", id, n, err)
		}
		if err == nil {
			good++
		}
	}
	s := l.dep.Stats()
	calls, most := s.Totals.Calls, int64(math.Ceil(0.3*float64(s.Totals.Succeeded)+2.5))
	if added := int64(arrived) - calls; added > most || s.Totals.Retries > most {
		t.Errorf("%s: %d calls came %d times, with %d retries, %d of them well: more than the budget of %d", l.kind, calls, arrived, s.Totals.Retries, s.Totals.Succeeded, most)
	}
	for _, p := range s.Partitions {
		opened = opened || s.Totals.Failures.Of(policy.BreakerOpen) > 0
		if p.Breaker.State != policy.StateClosed {
			t.Errorf("%s: the breaker is %v", l.kind, p.Breaker.State)
		}
	}
	t.Logf("%-18s %4d calls, %4d well, %3d retries, came %d", l.kind, calls, good, s.Totals.Retries, arrived)
	return opened
}
