package drivers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion/classify"
)

// What it costs to decide what an error means, for errors as attempts really end with
// them. A failed attempt costs microseconds at least, and the waiting before the next one.
func BenchmarkClassify(b *testing.B) {
	for _, e := range attemptErrors(b) {
		b.Run(e.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				classify.Error(e.err)
			}
		})
	}
}

type attemptError struct {
	name string
	err  error
}

// attemptErrors are made by the libraries themselves where that needs no server.
func attemptErrors(b *testing.B) []attemptError {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()

	plain := errors.New("out of stock")
	_, dial := net.Dial("tcp", closed)
	_, refused := http.Get("http://" + closed)
	_, certificate := http.Get(secure.URL)
	ctx, cancel := context.WithTimeout(b.Context(), 1)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, slow.URL, nil)
	_, late := http.DefaultClient.Do(request)
	_, connect := pgx.Connect(b.Context(), "postgres://x@"+closed+"/x?sslmode=disable")
	serialization := &pgconn.PgError{Severity: "ERROR", Code: "40001", Message: "could not serialize access"}
	return []attemptError{
		{"plain", plain},
		{"wrapped", fmt.Errorf("save: %w", plain)},
		{"wrapped 4 times", fmt.Errorf("a: %w", fmt.Errorf("b: %w", fmt.Errorf("c: %w", fmt.Errorf("d: %w", plain))))},
		{"joined", errors.Join(plain, io.ErrUnexpectedEOF)},
		{"two wrapped", fmt.Errorf("primary: %w; secondary: %w", dial, context.DeadlineExceeded)},
		{"deadline", context.DeadlineExceeded},
		{"no rows", fmt.Errorf("user: %w", sql.ErrNoRows)},
		{"marked", classify.Transient(plain)},
		{"net dial", dial},
		{"http refused", refused},
		{"http deadline", late},
		{"http certificate", certificate},
		{"pgx state", fmt.Errorf("tx: %w", serialization)},
		{"pgx connect", connect},
		{"mysql deadlock", fmt.Errorf("tx: %w", &mysql.MySQLError{Number: 1213, SQLState: [5]byte{'4', '0', '0', '0', '1'}})},
		{"redis nil", redis.Nil},
		{"grpc", status.Error(codes.Unavailable, "draining")},
		{"grpc wrapped", fmt.Errorf("call: %w", status.Error(codes.Unavailable, "draining"))},
	}
}
