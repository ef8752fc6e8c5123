package foreign

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

const attempt = 60 * time.Millisecond

// within returns a dependency whose calls have one attempt, which ends by then.
func within(limit time.Duration) *gabion.Dependency {
	return gabion.New("slow", policy.Policy{
		Timeout: policy.Timeout{Call: 2 * time.Minute, Attempt: limit},
		Retry:   policy.Retry{Attempts: 1},
		Breaker: policy.Breaker{Off: true},
	})
}

// timesOut runs work, which must end with the attempt and leave no goroutine, and
// checks what the call says.
func timesOut(t *testing.T, work func(context.Context) error) {
	t.Helper()
	timesOutAfter(t, attempt, work)
}

func timesOutAfter(t *testing.T, limit time.Duration, work func(context.Context) error) {
	t.Helper()
	t.Run("the attempt", func(t *testing.T) {
		gabiontest.NoLeaks(t)
		began := time.Now()
		err := within(limit).Run(context.Background(), work)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call says %v", err)
		}
		if took := time.Since(began); took < limit || took > limit+20*time.Second {
			t.Errorf("the attempt of %v took %v", limit, took)
		}
	})
}

func TestAGroupEndsWithTheAttempt(t *testing.T) {
	timesOut(t, func(ctx context.Context) error {
		group, inside := errgroup.WithContext(ctx)
		for range 8 {
			group.Go(func() error {
				<-inside.Done()
				if inside.Err() != context.DeadlineExceeded || context.Cause(inside) != policy.AttemptTimeout {
					t.Errorf("a member sees %v because of %v", inside.Err(), context.Cause(inside))
				}
				return inside.Err()
			})
		}
		return group.Wait()
	})
}

func TestAGroupsFailureLeavesTheAttemptAlone(t *testing.T) {
	failed := errors.New("a member failed")
	err := within(time.Minute).Run(context.Background(), func(ctx context.Context) error {
		group, inside := errgroup.WithContext(ctx)
		group.Go(func() error { return failed })
		group.Go(func() error { <-inside.Done(); return inside.Err() })
		if err := group.Wait(); err != failed {
			t.Errorf("the group says %v", err)
		}
		return ctx.Err()
	})
	if err != nil {
		t.Errorf("the call says %v", err)
	}
}

func TestARequestEndsWithTheAttempt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()                                  // waits for the handler: the server sees the end too
	transport := &http.Transport{DisableKeepAlives: true} // a connection that is there only after the attempt is closed
	client := &http.Client{Transport: transport}
	timesOut(t, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return err
		}
		_, err = client.Do(request)
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, policy.AttemptTimeout) {
			t.Errorf("net/http says %v", err)
		}
		return err
	})
	transport.CloseIdleConnections()
}

// A body that is read after its attempt ended by Do is cut off, which is why Open is there.
func TestABodyEndsWithItsAttemptUnlessItIsHeldOpen(t *testing.T) {
	more := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first half, ")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-more:
			io.WriteString(w, "second half")
		}
	}))
	defer server.Close()
	get := func(ctx context.Context) (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return nil, err
		}
		return http.DefaultClient.Do(request)
	}
	response, err := gabion.Do(context.Background(), within(time.Minute), get)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("after Do the body says %v", err)
	}
	response.Body.Close()

	response, open, err := gabion.Open(context.Background(), within(time.Minute), get)
	if err != nil {
		t.Fatal(err)
	}
	close(more)
	text, err := io.ReadAll(response.Body)
	if err != nil || string(text) != "first half, second half" {
		t.Errorf("after Open the body is %q, %v", text, err)
	}
	response.Body.Close()
	open.Close(nil)
}

// endless takes SQLite for ever.
const endless = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n`

func database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec("CREATE TABLE effects (n)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestAQueryEndsWithTheAttempt(t *testing.T) {
	db := database(t)
	timesOut(t, func(ctx context.Context) error {
		var n int
		err := db.QueryRowContext(ctx, endless).Scan(&n)
		if err == nil {
			t.Error("the query came to an end")
		}
		return err
	})
	if open := db.Stats().InUse; open != 0 {
		t.Errorf("%d connections are still in use", open)
	}
}

func TestATransactionIsRolledBackWithItsAttempt(t *testing.T) {
	db := database(t)
	timesOut(t, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (1)"); err != nil {
			return err
		}
		<-ctx.Done()
		for n := 0; n < 20_000 && db.Stats().InUse > 0; n++ { // database/sql rolls back on a goroutine of its own
			time.Sleep(time.Millisecond)
		}
		if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("the commit says %v", err)
		}
		return ctx.Err()
	})
	var n int
	if err := db.QueryRow("SELECT count(*) FROM effects").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d effects, %v", n, err)
	}
}

// patient answers when its client is gone.
type patient struct {
	grpc_health_v1.UnimplementedHealthServer
	left chan time.Duration // what the client said is left
	done chan error
}

func (p *patient) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	deadline, _ := ctx.Deadline()
	p.left <- time.Until(deadline)
	<-ctx.Done()
	p.done <- ctx.Err()
	return nil, ctx.Err()
}

func TestARemoteProcedureEndsWithTheAttemptAndIsToldWhenThatIs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := &patient{left: make(chan time.Duration, 10), done: make(chan error, 10)}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, service)
	go server.Serve(listener)
	defer server.Stop()
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	client := grpc_health_v1.NewHealthClient(connection)
	// Once the server has answered, both ends have the goroutines that are not a call's.
	if _, err := client.List(t.Context(), &grpc_health_v1.HealthListRequest{}, grpc.WaitForReady(true)); status.Code(err) != codes.Unimplemented {
		t.Fatal(err)
	}
	told := false // in time: a busy machine may not get as far in a short attempt
	for limit := attempt; !told && limit < 20*time.Second; limit *= 4 {
		timesOutAfter(t, limit, func(ctx context.Context) error {
			_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("grpc says %v", err)
			}
			select {
			case left := <-service.left:
				if told = left > 0; left > limit {
					t.Errorf("the server was told of %v, and the attempt has %v", left, limit)
				}
				<-service.done
			case <-time.After(limit):
			}
			return context.DeadlineExceeded
		})
	}
	if !told {
		t.Error("the server was never told in time")
	}
}

// A parent that is not of the standard library costs a goroutine for every child,
// unless the library knows how to ask it.
func TestAThousandChildrenStartNoGoroutine(t *testing.T) {
	err := within(time.Minute).Run(context.Background(), func(ctx context.Context) error {
		before := runtime.NumGoroutine()
		for range 1000 {
			_, cancel := context.WithCancel(ctx)
			defer cancel()
		}
		if more := runtime.NumGoroutine() - before; more > 100 { // a few may be of something else
			t.Errorf("%d goroutines for a thousand children", more)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
