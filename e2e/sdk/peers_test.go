package sdk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/contrib/gabionredis"
	"github.com/gabion-go/gabion/policy"
)

// given is the policy of an arrangement: the page's, or the zero policy.
func given(page policy.Policy, how int) policy.Policy {
	if how == asIs {
		return policy.Policy{}
	}
	return page
}

// eachConn serves connections until the world ends.
func (w *world) eachConn(serve func(net.Conn)) (end func()) {
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := w.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	return func() {
		w.Close()
		all.Wait()
	}
}

// cacheGet and cacheIncr are commands of go-redis with contrib/gabionredis.
func cacheGet() *client {
	c := overRedis("go-redis GET", true, func(ctx context.Context, c *redis.Client, key string) error { return c.Get(ctx, key).Err() })
	c.gives = map[cell]float64{{third, asIs}: 3} // three attempts; go-redis alone makes four
	return c
}

func cacheIncr() *client {
	c := overRedis("go-redis INCR", false, func(ctx context.Context, c *redis.Client, key string) error { return c.Incr(ctx, key).Err() })
	// The connection was cut, so it may have been counted: the caller gets an error, and go-redis alone counts twice.
	c.gives = map[cell]float64{{tenth, paged}: 10, {tenth, asIs}: 10, {third, paged}: 30, {third, asIs}: 30}
	return c
}

func overRedis(name string, reads bool, command func(context.Context, *redis.Client, string) error) *client {
	cache, _ := policy.Preset("cache")
	open := func(t *testing.T, w *world, how int) (call, func()) {
		end := w.eachConn(w.redis)
		o := &redis.Options{
			Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true, DialerRetries: 1, ContextTimeoutEnabled: how != alone,
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) },
		}
		if how != alone {
			o.MaxRetries = -1
		}
		c := redis.NewClient(o)
		if how != alone {
			if err := gabionredis.Use(c, gabion.New("cache", given(cache, how), gabion.WithSeed(w.seed))); err != nil {
				t.Fatal(err)
			}
		}
		return func(ctx context.Context, n int) error { return command(ctx, c, strconv.Itoa(n)) },
			func() { c.Close(); end() }
	}
	return &client{name: name, reads: reads, open: open}
}

// redis answers the commands of one connection. What fails is cut off. In an outage nothing is
// reached, and a server that is full refuses.
func (w *world) redis(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		args, err := command(r)
		if err != nil {
			return
		}
		answer := "-ERR unknown command\r\n"
		if verb := strings.ToUpper(args[0]); verb == "GET" || verb == "INCR" {
			n, _ := strconv.Atoi(args[1])
			time.Sleep(time.Millisecond)
			switch w.next(n) {
			case fine:
				w.done(n)
				answer = map[string]string{"GET": "$5\r\nhello\r\n", "INCR": ":1\r\n"}[verb]
			case tooMany:
				answer = "-LOADING Redis is loading the dataset in memory\r\n"
			case resetAfter:
				w.done(n)
				return
			default:
				return
			}
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// command reads an array of strings.
func command(r *bufio.Reader) ([]string, error) {
	length := func(mark byte) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil || line[0] != mark {
			return 0, errors.Join(err, fmt.Errorf("got %q", line))
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := length('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := length('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

// rpc is a call of grpc-go with contrib/gabiongrpc. Alone, grpc-go repeats nothing.
func rpc() *client {
	internal, _ := policy.Preset("internal-rpc")
	open := func(t *testing.T, w *world, how int) (call, func()) {
		server := grpc.NewServer()
		pb.RegisterTestServiceServer(server, &service{world: w})
		var served sync.WaitGroup
		served.Go(func() { server.Serve(w) })
		opts := []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return w.DialContext(ctx) }),
		}
		if how != alone {
			d := gabion.New("rpc", given(internal, how), gabion.WithSeed(w.seed))
			all := func(string) bool { return true }
			opts = append((&gabiongrpc.Client{Dependency: d, Idempotent: all}).DialOptions(), opts...)
		}
		conn, err := grpc.NewClient("passthrough:///service.test", opts...)
		if err != nil {
			t.Fatal(err)
		}
		c := pb.NewTestServiceClient(conn)
		return func(ctx context.Context, n int) error {
				_, err := c.UnaryCall(metadata.AppendToOutgoingContext(ctx, "call", strconv.Itoa(n)), &pb.SimpleRequest{})
				return err
			}, func() {
				conn.Close()
				server.Stop()
				served.Wait()
			}
	}
	return &client{name: "grpc-go", reads: true, open: open}
}

// service answers for a world.
type service struct {
	pb.UnimplementedTestServiceServer
	world *world
}

// UnaryCall implements grpc_testing.TestServiceServer.
func (s *service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	n, _ := strconv.Atoi(md.Get("call")[0])
	time.Sleep(answersIn)
	switch s.world.next(n) {
	case fine:
		s.world.done(n)
		return &pb.SimpleResponse{}, nil
	case tooMany:
		return nil, status.Error(codes.ResourceExhausted, "slow down")
	case resetAfter:
		s.world.done(n)
	}
	return nil, status.Error(codes.Unavailable, "busy")
}

// query is a query of pgx with contrib/gabionpgx. Alone, pgx repeats nothing.
func query() *client {
	database, _ := policy.Preset("database")
	open := func(t *testing.T, w *world, how int) (call, func()) {
		end := w.eachConn(w.postgres)
		config, err := pgxpool.ParseConfig("postgres://u@127.0.0.1/d?sslmode=disable&default_query_exec_mode=simple_protocol&pool_max_conns=100")
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) }
		type pool interface {
			QueryRow(context.Context, string, ...any) pgx.Row
			Close()
		}
		var p pool
		if how == alone {
			p, err = pgxpool.NewWithConfig(t.Context(), config)
		} else {
			p, err = gabionpgx.Open(t.Context(), config, gabion.New("database", given(database, how), gabion.WithSeed(w.seed)), gabion.WithIdempotent())
		}
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context, n int) error {
				var got int
				return p.QueryRow(ctx, "SELECT "+strconv.Itoa(n)).Scan(&got)
			}, func() {
				p.Close()
				end()
			}
	}
	return &client{name: "pgx", reads: true, open: open}
}

// postgres speaks the protocol of PostgreSQL with one connection.
func (w *world) postgres(conn net.Conn) {
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		q, ok := m.(*pgproto3.Query)
		if !ok {
			return
		}
		_, text, _ := strings.Cut(q.String, " ")
		n, _ := strconv.Atoi(text)
		time.Sleep(5 * time.Millisecond)
		switch w.next(n) {
		case fine:
			w.done(n)
			b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("n"), DataTypeOID: 23, DataTypeSize: 4}}})
			b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(text)}})
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		case tooMany:
			b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "53300", Message: "too many clients"})
		case resetAfter:
			w.done(n)
			return
		default:
			return
		}
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
}

// mute is also a logger for go-redis, which tells of every dial that fails.
func (mute) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(mute{}) }
