package gabiongrpc_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// inRoomOfGRPC runs f in a bubble without gabion: grpc-go follows the service config itself.
func inRoomOfGRPC(t *testing.T, js string, f func(*room)) {
	t.Helper()
	inRoomWith(t, func(*testing.T) []grpc.DialOption { return []grpc.DialOption{grpc.WithDefaultServiceConfig(js)} }, f)
}

// inRoomWith runs f in a bubble with a connection of such options.
func inRoomWith(t *testing.T, options func(*testing.T) []grpc.DialOption, f func(*room)) {
	t.Helper()
	inRoomOn(t, "passthrough:///memory", options, f)
}

func inRoomOn(t *testing.T, target string, options func(*testing.T) []grpc.DialOption, f func(*room)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &room{T: t, server: &server{t: t, start: time.Now()}}
		l := bufconn.Listen(1 << 20)
		s := grpc.NewServer()
		pb.RegisterTestServiceServer(s, r.server)
		served := make(chan struct{})
		go func() { defer close(served); _ = s.Serve(l) }()
		conn, err := grpc.NewClient(target, append(options(t),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
			grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			t.Fatal(err)
		}
		r.conn, r.stub = conn, pb.NewTestServiceClient(conn)
		defer func() {
			_ = conn.Close()
			s.Stop()
			<-served
		}()
		f(r)
	})
}

// exactly is the policy that a service config has for the calls of these tests, with nothing
// added.
func exactly(t *testing.T, js string) policy.Policy {
	t.Helper()
	return imported(t, js).Exact().Policies()["all"]
}

func imported(t *testing.T, js string) *gabiongrpc.ServiceConfig {
	t.Helper()
	s, err := gabiongrpc.FromServiceConfig([]byte(js))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Policies()["all"]; !ok {
		t.Fatal("no policy")
	}
	return s
}

// played is what came of calls: of each, how often it was sent and how it ended, and when
// the attempts came.
type played struct {
	sent  []int
	codes []codes.Code
	took  []time.Duration // of each call
	waits []time.Duration // between the attempts of a call
}

func (r *room) play(calls int, script []answer) (p played) {
	r.answers(script...)
	for range calls {
		before, began := len(r.seen()), time.Now()
		_, err := r.call()
		p.codes = append(p.codes, status.Code(err))
		p.took = append(p.took, time.Since(began))
		came := r.seen()
		p.sent = append(p.sent, len(came)-before)
		for i := before + 1; i < len(came); i++ {
			p.waits = append(p.waits, came[i].at-came[i-1].at)
		}
	}
	return p
}

// configOf writes a config for all methods, and what more it says.
func configOf(attempts int, codes, more string) string {
	return fmt.Sprintf(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": %d, "initialBackoff": "0.1s",
		"maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [%s]}}]%s}`, attempts, codes, more)
}

// C60, C73, C74, C84: for the same answers of the same server, grpc-go with a service config
// and gabion with the policy that is read from it send as often, and their calls end with the
// same code. Where they differ the fact says so, and docs/grpc.md lists it.
func TestTheSameDecisionsAsGRPC(t *testing.T) {
	const unavailable = `"UNAVAILABLE"`
	down, up := fails(codes.Unavailable), ok("fine")
	throttled := func(tokens int, ratio string) string {
		return configOf(4, unavailable, fmt.Sprintf(`, "retryThrottling": {"maxTokens": %d, "tokenRatio": %s}`, tokens, ratio))
	}
	plain := configOf(4, unavailable, "")
	listing := func(codes string) string { return configOf(4, codes, "") }
	for _, c := range []struct {
		fact   string
		config string
		script []answer
		calls  int
		sent   []int // of each call
		waits  []time.Duration
	}{
		{"a success is sent once", plain, []answer{up}, 2, []int{1, 1}, nil},
		{"C60: waits grow from the initial backoff to the longest", configOf(9, unavailable, ""), []answer{down}, 1, []int{5}, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms}},
		{"a success ends the call", plain, []answer{down, down, up}, 1, []int{3}, nil},
		{"all attempts fail", plain, []answer{down}, 1, []int{4}, nil},
		{"C74: ten attempts are five", configOf(10, unavailable, ""), []answer{down}, 1, []int{5}, nil},
		{"C74: codes by their number", listing("14, 13"), []answer{fails(codes.Internal), down, up}, 1, []int{3}, nil},
		{"a code that is not listed ends the call", plain, []answer{down, fails(codes.Internal)}, 1, []int{2}, nil},
		{"UNAVAILABLE that is not listed", listing(`"INTERNAL"`), []answer{down}, 1, []int{1}, nil},
		{"INTERNAL that is listed", listing(`"INTERNAL"`), []answer{fails(codes.Internal)}, 1, []int{4}, nil},
		{"UNKNOWN that is listed", listing(`"UNKNOWN"`), []answer{fails(codes.Unknown)}, 1, []int{4}, nil},
		{"DATA_LOSS that is listed", listing(`"DATA_LOSS"`), []answer{fails(codes.DataLoss)}, 1, []int{4}, nil},
		{"DEADLINE_EXCEEDED by the server that is listed", listing(`"DEADLINE_EXCEEDED"`), []answer{fails(codes.DeadlineExceeded)}, 1, []int{4}, nil},
		{"RESOURCE_EXHAUSTED that is listed", listing(`"RESOURCE_EXHAUSTED"`), []answer{fails(codes.ResourceExhausted)}, 1, []int{4}, nil},
		{"NOT_FOUND that is listed", listing(`"NOT_FOUND"`), []answer{fails(codes.NotFound)}, 1, []int{4}, nil},
		{"ABORTED that is listed", listing(`"ABORTED"`), []answer{fails(codes.Aborted)}, 1, []int{4}, nil},
		{"ABORTED that is not", plain, []answer{fails(codes.Aborted)}, 1, []int{1}, nil},
		{"C73: pushback is waited for exactly, and the backoff begins anew", plain, []answer{down, down.push("1000"), down, up}, 1, []int{4}, []time.Duration{100 * ms, -time.Second, 100 * ms}},
		{"C73: pushback of zero is at once", plain, []answer{down.push("0"), up}, 1, []int{2}, []time.Duration{0}},
		{"C73: negative pushback ends the call", plain, []answer{down.push("-1")}, 1, []int{1}, nil},
		{"C73: so does one that is no number", plain, []answer{down.push("abc")}, 1, []int{1}, nil},
		{"C73: pushback brings no attempt more", configOf(2, unavailable, ""), []answer{down.push("10")}, 1, []int{2}, nil},
		{"pushback does not make a code one that is retried", plain, []answer{fails(codes.NotFound).push("10")}, 1, []int{1}, nil},
		{"retries stop at half of the tokens", throttled(6, "0.1"), []answer{down}, 3, []int{3, 1, 1}, nil},
		{"C84: what is not retried moves no tokens", throttled(4, "0.1"), []answer{fails(codes.InvalidArgument), fails(codes.InvalidArgument), fails(codes.InvalidArgument), down, up}, 4, []int{1, 1, 1, 2}, nil},
		{"C84: negative pushback moves them", throttled(4, "0.1"), []answer{down.push("-1"), down, up}, 2, []int{1, 1}, nil},
		{"successes earn tokens", throttled(4, "1"), []answer{down, down, up, up, down, up}, 4, []int{2, 1, 1, 2}, nil},
		{"tokens end at their most", throttled(4, "1"), []answer{up, up, down, down, up}, 4, []int{1, 1, 2, 1}, nil},
		{"an attempt that hangs is not repeated", strings.Replace(plain, `"retryPolicy"`, `"timeout": "9s", "retryPolicy"`, 1), []answer{up.after(time.Minute), up}, 1, []int{1}, nil},
		{"one token allows no retry", throttled(1, "1"), []answer{down}, 2, []int{1, 1}, nil},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var theirs, ours, usual played
			inRoomOfGRPC(t, c.config, func(r *room) { theirs = r.play(c.calls, c.script) })
			inRoom(t, exactly(t, c.config), func(r *room) { ours = r.play(c.calls, c.script) })
			inRoom(t, imported(t, c.config).Policies()["all"], func(r *room) { usual = r.play(1, c.script) })
			if usual.sent[0] > theirs.sent[0] {
				t.Errorf("with what gabion adds it sent %d times, grpc-go %d", usual.sent[0], theirs.sent[0])
			}
			if !slices.Equal(theirs.sent, c.sent) || !slices.Equal(ours.sent, c.sent) {
				t.Errorf("grpc-go sent %v, gabion %v, want %v", theirs.sent, ours.sent, c.sent)
			}
			if !slices.Equal(theirs.codes, ours.codes) {
				t.Errorf("grpc-go's calls ended with %v, gabion's with %v", theirs.codes, ours.codes)
			}
			for i, w := range c.waits { // below zero is exactly that
				least, most, half := w-w/5, w+w/5, time.Duration(0)
				if w < 0 {
					least, most, half = -w, -w, -w
				}
				if got := theirs.waits[i]; got < least || got > most {
					t.Errorf("grpc-go waited %v before retry %d, want %v to %v", got, i+1, least, most)
				}
				if got := ours.waits[i]; got < half || got > max(w, -w) { // full jitter
					t.Errorf("gabion waited %v before retry %d, want %v to %v", got, i+1, half, max(w, -w))
				}
			}
		})
	}
}

// What differs on purpose, by name. docs/grpc.md has the list.
func TestWhereDecisionsDifferFromGRPC(t *testing.T) {
	down := fails(codes.Unavailable)
	for _, c := range []struct {
		fact   string
		config string
		script []answer
		check  func(t *testing.T, theirs, ours played)
	}{
		{"C53: a wait that does not fit the deadline is not begun, and the last answer is kept",
			`{"methodConfig": [{"name": [{}], "timeout": "0.5s", "retryPolicy": {"maxAttempts": 3, "initialBackoff": "100s", "maxBackoff": "100s", "backoffMultiplier": 1, "retryableStatusCodes": [14]}}]}`,
			[]answer{down}, func(t *testing.T, theirs, ours played) {
				if theirs.codes[0] != codes.DeadlineExceeded || theirs.took[0] != 500*ms {
					t.Errorf("grpc-go: %+v", theirs)
				}
				if ours.codes[0] != codes.Unavailable || ours.took[0] != 0 {
					t.Errorf("gabion: %+v", ours)
				}
			}},
		{"C73: so is a pushback that does not fit it",
			`{"methodConfig": [{"name": [{}], "timeout": "0.5s", "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [14]}}]}`,
			[]answer{down.push("60000")}, func(t *testing.T, theirs, ours played) {
				if theirs.took[0] != 500*ms || ours.took[0] != 0 || ours.codes[0] != codes.Unavailable {
					t.Errorf("grpc-go: %+v, gabion: %+v", theirs, ours)
				}
			}},
		{"conflicts are counted apart from other failures, up to 2 × 3 − 1 sends",
			configOf(3, `"UNAVAILABLE", "ABORTED"`, ""),
			[]answer{fails(codes.Aborted), down, fails(codes.Aborted), down, down}, func(t *testing.T, theirs, ours played) {
				if theirs.sent[0] != 3 || ours.sent[0] != 5 {
					t.Errorf("grpc-go sent %v, gabion %v", theirs.sent, ours.sent)
				}
			}},
		{"OK and CANCELLED are not retried",
			configOf(3, `"UNAVAILABLE", "CANCELLED"`, ""),
			[]answer{fails(codes.Canceled)}, func(t *testing.T, theirs, ours played) {
				if theirs.sent[0] != 3 || ours.sent[0] != 1 {
					t.Errorf("grpc-go sent %v, gabion %v", theirs.sent, ours.sent)
				}
			}},
		{"hedges are sent, which grpc-go ignores",
			`{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["UNAVAILABLE"]}}]}`,
			[]answer{ok("late").after(2 * time.Second)}, func(t *testing.T, theirs, ours played) {
				if theirs.sent[0] != 1 || ours.sent[0] != 3 || !slices.Equal(ours.waits, []time.Duration{500 * ms, 500 * ms}) {
					t.Errorf("grpc-go sent %v, gabion %v", theirs.sent, ours)
				}
			}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var theirs, ours played
			inRoomOfGRPC(t, c.config, func(r *room) { theirs = r.play(1, c.script) })
			inRoom(t, exactly(t, c.config), func(r *room) { ours = r.play(1, c.script) })
			c.check(t, theirs, ours)
		})
	}
}
