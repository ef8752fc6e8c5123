package stores

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxstore"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisstore"
	"github.com/gabion-go/gabion/contrib/natsmsg/natsstore"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

// The names of contestants. Those with a server come in twins: by hand, and through
// the store.
const (
	Log           = "append log"
	Bolt          = "boltstore"
	SQLite        = "sqlitestore"
	PostgresBare  = "PostgreSQL, bare statements"
	PostgresStore = "pgxstore"
	MariaDBBare   = "MariaDB, bare statements"
	MySQLStore    = "mysqlstore"
	RedisBare     = "Redis, bare scripts"
	RedisStore    = "redisstore"
	NATSBare      = "NATS, bare bucket"
	NATSStore     = "natsstore"
)

// servers are the versions of the servers that were started, for the report.
var servers []string

func tell(server string) {
	if !slices.Contains(servers, server) {
		servers = append(servers, server)
	}
}

var kinds = []kind{
	{Log, makeLog}, {Bolt, makeBolt}, {SQLite, makeSQLite},
	{PostgresBare, makePostgresBare}, {PostgresStore, makePostgresStore},
	{MariaDBBare, makeMariaDBBare}, {MySQLStore, makeMySQLStore},
	{RedisBare, makeRedisBare}, {RedisStore, makeRedisStore},
	{NATSBare, makeNATSBare}, {NATSStore, makeNATSStore},
}

func makeBolt(t testing.TB) contestant {
	dir := t.TempDir()
	store, err := boltstore.Open(filepath.Join(dir, "records"), boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	durable(t, store)
	return ofStore(store, sizeOf(dir))
}

func makeSQLite(t testing.TB) contestant {
	dir := t.TempDir()
	db, store, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "records"), "records")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	durable(t, store)
	return ofStore(store, sizeOf(dir))
}

// postgres starts a server of its own for each twin, so that neither's table or log is
// the other's burden, and returns the store and what its table takes on disk.
func postgres(t testing.TB) (*pgxpool.Pool, *pgxstore.Store, func() int64) {
	t.Helper()
	config, err := pgxpool.ParseConfig(testservers.Postgres(t, "fsync=on", "max_connections=100"))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = Workers
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var version string
	if err := pool.QueryRow(t.Context(), "SHOW server_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	tell("PostgreSQL " + version)
	store, err := pgxstore.New(pool, "records")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	durable(t, store)
	return pool, store, func() (n int64) {
		if err := pool.QueryRow(context.Background(), "SELECT pg_total_relation_size('records')").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
}

func makePostgresStore(t testing.TB) contestant {
	_, store, size := postgres(t)
	return ofStore(store, size)
}

// makePostgresBare writes what the store writes, into the same table, with the two
// statements that one would write by hand. Times are the client's.
func makePostgresBare(t testing.TB) contestant {
	pool, _, size := postgres(t)
	const insert = `INSERT INTO records (id, rev, version, state, guarantee, token, attempt, fingerprint, owner, lease_until, created, finished, expires, retention, due)
		VALUES ($1, 1, 1, 1, 0, $2, 1, $3, $4, $5, $2, 0, 0, $6, $5) ON CONFLICT (id) DO NOTHING`
	const update = `UPDATE records SET rev = 2, state = 3, lease_until = 0, finished = $3, expires = $4, due = $4, payload = $5
		WHERE id = $1 AND rev = 1 AND token = $2`
	pair := func(ctx context.Context, id idempotency.ID, body []byte) error {
		now := time.Now().UnixNano()
		tag, err := pool.Exec(ctx, insert, id[:], now, id[:], id[:16], now+int64(time.Minute), int64(time.Hour))
		if err == nil && tag.RowsAffected() == 1 {
			tag, err = pool.Exec(ctx, update, id[:], now, now, now+int64(time.Hour), body)
		}
		if err == nil && tag.RowsAffected() != 1 {
			err = errors.New("nothing was changed")
		}
		return err
	}
	return contestant{pair, size}
}

func redisServer(t testing.TB) (*redis.Client, func() int64) {
	t.Helper()
	dir := t.TempDir()
	addr := testservers.Redis(t, "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--dir", dir)
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: Workers, ContextTimeoutEnabled: true, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	info, err := client.InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	tell("Redis " + info["Server"]["redis_version"])
	return client, sizeOf(dir)
}

func makeRedisStore(t testing.TB) contestant {
	client, size := redisServer(t)
	store, err := redisstore.New(t.Context(), client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	durable(t, store)
	return ofStore(store, size)
}

// The scripts that one would write by hand: claim if absent, replace if unchanged.
var (
	bareClaim = redis.NewScript(`local old = redis.call('GET', KEYS[1])
		if old then return old end
		redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
		return redis.call('TIME')`)
	bareComplete = redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
		redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
		return 1`)
)

func makeRedisBare(t testing.TB) contestant {
	client, size := redisServer(t)
	pair := func(ctx context.Context, id idempotency.ID, body []byte) error {
		key := fmt.Sprintf("gabion:idempotency:%x", id[:]) // its String is short
		first, second := plainValues(id, body)
		if _, err := bareClaim.Run(ctx, client, []string{key}, first, 3_660_000).Slice(); err != nil {
			return err
		}
		n, err := bareComplete.Run(ctx, client, []string{key}, first, second, 3_600_000).Int()
		if err == nil && n != 1 {
			err = errors.New("nothing was changed")
		}
		return err
	}
	return contestant{pair, size}
}

// plainValues returns values about as large as those of a running and a finished record.
func plainValues(id idempotency.ID, body []byte) (first, second []byte) {
	first = make([]byte, lineSize)
	copy(first, id[:])
	return first, append(first[:lineSize:lineSize], body...)
}

func natsServer(t testing.TB) (jetstream.JetStream, func() int64) {
	t.Helper()
	dir := t.TempDir()
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	if !n.ReadyForConnections(15 * time.Second) {
		t.Fatal("the NATS server is not ready")
	}
	nc, err := nats.Connect(n.ClientURL(), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js, sizeOf(dir)
}

func makeNATSStore(t testing.TB) contestant {
	js, size := natsServer(t)
	store, err := natsstore.Open(t.Context(), js, natsstore.Options{Bucket: "records", SyncAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	durable(t, store)
	return ofStore(store, size)
}

func makeNATSBare(t testing.TB) contestant {
	js, size := natsServer(t)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	pair := func(ctx context.Context, id idempotency.ID, body []byte) error {
		key := fmt.Sprintf("%x", id[:])
		first, second := plainValues(id, body)
		rev, err := kv.Create(ctx, key, first)
		if err == nil {
			_, err = kv.Update(ctx, key, second, rev)
		}
		return err
	}
	return contestant{pair, size}
}
