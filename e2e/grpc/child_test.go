package grpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/contrib/gabiongrpc/grpcidem"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

// The settings of a child process, and where it writes.
const (
	childDir    = "E2E_GRPC_DIR"  // a process that has it is a server
	childAddr   = "E2E_GRPC_ADDR" // where it listens
	childBroken = "E2E_GRPC_BROKEN"
	requestID   = "request-id" // the metadata that names a call
	streamed    = 5            // messages of a stream

	brokenServer = "broken, as the test wants it"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := serveAsChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// journal is a file with a line for each call that came and each that was carried out. What
// was written survives the process.
type journal struct {
	file   *os.File
	broken bool
}

func (j *journal) write(what string, ctx context.Context) error {
	id := strings.Join(metadata.ValueFromIncomingContext(ctx, requestID), ",")
	_, err := fmt.Fprintf(j.file, "%s %s\n", what, id) // one write: lines stay whole
	return err
}

func (j *journal) unary(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := j.came(ctx); err != nil {
		return nil, err
	}
	return next(ctx, r)
}

func (j *journal) stream(s any, st grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := j.came(st.Context()); err != nil {
		return err
	}
	return next(s, st)
}

func (j *journal) came(ctx context.Context) error {
	if err := j.write("came", ctx); err != nil {
		return err
	}
	if j.broken {
		return status.Error(codes.Unavailable, brokenServer)
	}
	return nil
}

// ledger is the service of a child: UnaryCall and StreamingInputCall have an effect each time
// they are carried out, EmptyCall and StreamingOutputCall only read.
type ledger struct {
	pb.UnimplementedTestServiceServer
	*journal
}

func takes(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (l *ledger) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	takes(ctx, 2*time.Millisecond)
	return &pb.Empty{}, l.write("did", ctx)
}

func (l *ledger) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if tx := sqlstore.TxFrom(ctx); tx != nil {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", string(r.GetPayload().GetBody()))
		sqlstore.Failed(ctx, err)
		return &pb.SimpleResponse{}, err
	}
	if err := l.write("did", ctx); err != nil {
		return nil, err
	}
	takes(ctx, 2*time.Millisecond)
	return &pb.SimpleResponse{}, nil
}

func (l *ledger) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
	for i := range streamed {
		takes(out.Context(), time.Millisecond)
		if err := out.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte{byte(i)}}}); err != nil {
			return err
		}
	}
	return l.write("did", out.Context())
}

func (l *ledger) StreamingInputCall(in pb.TestService_StreamingInputCallServer) error {
	for n := int32(0); ; n++ {
		_, err := in.Recv()
		if err == io.EOF {
			takes(in.Context(), 2*time.Millisecond)
			return in.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
		if err == nil && n == 0 {
			err = l.write("did", in.Context())
		}
		if err != nil {
			return err
		}
	}
}

// serveAsChild is the child process. It ends with its parent, whose pipe is its input.
func serveAsChild(dir string) error {
	file, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	db, store, err := sqlitestore.Open(context.Background(), filepath.Join(dir, "records.db"), "records")
	if err != nil {
		return err
	}
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS effects (id text)"); err != nil {
		return err
	}
	idem, err := grpcidem.UnaryServerInterceptor(grpcidem.Global, store, grpcidem.Options{
		Optional: true, Runner: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx},
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", os.Getenv(childAddr))
	if err != nil {
		return err
	}
	j := &journal{file, os.Getenv(childBroken) != ""}
	options := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(j.unary), grpc.ChainStreamInterceptor(j.stream)},
		gabiongrpc.Server{Deadline: &gabiongrpc.Deadline{}, Admission: &gabiongrpc.Admission{}, Idempotency: idem}.Options()...)
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, &ledger{journal: j})
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return server.Serve(l)
}

// child is a server in a process of its own. Only the test's goroutine uses it.
type child struct {
	t    *testing.T
	dir  string
	addr string
	cmd  *exec.Cmd
}

func (c *child) start(broken bool) {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(self)
	c.cmd.Env = append(os.Environ(), childDir+"="+c.dir, childAddr+"="+c.addr)
	if broken {
		c.cmd.Env = append(c.cmd.Env, childBroken+"=1")
	}
	c.cmd.Stderr = os.Stderr
	out, err1 := c.cmd.StdoutPipe()
	_, err2 := c.cmd.StdinPipe() // it is closed when this process ends
	if err1 != nil || err2 != nil {
		c.t.Fatal(err1, err2)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.t.Fatal("the server did not start: ", err)
	}
	c.addr = strings.TrimSpace(line)
}

func (c *child) kill() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.cmd = nil
	}
}

// startChild starts a server whose files are kept over its restarts.
func startChild(t *testing.T) *child {
	c := &child{t: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
	t.Cleanup(c.kill)
	c.start(false)
	return c
}

// read returns how often each call came and was carried out.
func (c *child) read() (came, did map[string]int) {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, "journal"))
	if err != nil {
		c.t.Fatal(err)
	}
	came, did = map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(b)) {
		what, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "came":
			came[id]++
		case "did":
			did[id]++
		}
	}
	return came, did
}

// effects returns how often each keyed call was carried out, from the database of the records.
func (c *child) effects() map[string]int {
	c.t.Helper()
	db, _, err := sqlitestore.Open(c.t.Context(), filepath.Join(c.dir, "records.db"), "records")
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT id, count(*) FROM effects GROUP BY id")
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			c.t.Fatal(err)
		}
		found[id] = n
	}
	return found
}

// How calls end.
const (
	well   = "well"
	failed = "failed"
	broken = "broken" // failed, since the server that it reached was broken
)

// progress counts how calls ended, by their kind, and wakes who waits for more.
type progress struct {
	mu      sync.Mutex
	ended   map[[2]string]int
	changed chan struct{}
}

func newProgress() *progress {
	return &progress{ended: map[[2]string]int{}, changed: make(chan struct{}, 1)}
}

func (p *progress) note(kind string, err error) {
	p.mu.Lock()
	if err == nil {
		p.ended[[2]string{kind, well}]++
	} else {
		p.ended[[2]string{kind, failed}]++
		if strings.Contains(err.Error(), brokenServer) {
			p.ended[[2]string{kind, broken}]++
		}
	}
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// until waits until more further calls of each of the kinds have ended like how.
func (p *progress) until(t *testing.T, more int, how string, kinds ...string) {
	t.Helper()
	p.mu.Lock()
	want := map[[2]string]int{}
	for _, kind := range kinds {
		want[[2]string{kind, how}] = p.ended[[2]string{kind, how}] + more
	}
	p.mu.Unlock()
	limit := time.After(30 * time.Second)
	for !p.reached(want) {
		select {
		case <-p.changed:
		case <-limit:
			t.Fatalf("no %d more were %s in 30 s: %v", more, how, p.ended)
		}
	}
}

func (p *progress) reached(want map[[2]string]int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, n := range want {
		if p.ended[of] < n {
			return false
		}
	}
	return true
}
