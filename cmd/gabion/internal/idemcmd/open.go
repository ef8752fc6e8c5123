package idemcmd

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxstore"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisstore"
	"github.com/gabion-go/gabion/contrib/mysqlstore"
	"github.com/gabion-go/gabion/contrib/natsmsg/natsstore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

// open opens a store that is there: it makes no file, table or bucket.
func open(ctx context.Context, o *options) (store idempotency.Store, closeStore func(), err error) {
	kind, rest, _ := strings.Cut(o.store, ":")
	switch kind {
	case "bolt":
		return openBolt(rest)
	case "sqlite":
		return openSQLite(ctx, rest, o.table)
	}
	if err := operator.URL(o.store); err != nil {
		return nil, nil, err
	}
	switch kind {
	case "postgres", "postgresql":
		return openPostgres(ctx, o.store, o.table)
	case "mysql", "mariadb":
		return openMySQL(ctx, o.store, o.table)
	case "redis", "rediss":
		return openRedis(ctx, o.store, o.prefix)
	case "nats", "tls":
		return openNATS(ctx, o.store, o.bucket)
	}
	return nil, nil, operator.Wrongf("--store begins with bolt:, sqlite:, postgres://, mysql://, redis:// or nats://")
}

func openBolt(file string) (idempotency.Store, func(), error) {
	if err := operator.Regular(file); err != nil {
		return nil, nil, err
	}
	s, err := boltstore.Open(file, boltstore.Options{})
	if errors.Is(err, boltstore.ErrLocked) {
		return nil, nil, fmt.Errorf("%w: one process at a time can have it, so stop the service first", err)
	}
	if err != nil {
		return nil, nil, err
	}
	return s, func() { _ = s.Close() }, nil
}

func openSQLite(ctx context.Context, file, table string) (idempotency.Store, func(), error) {
	if err := operator.Regular(file); err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite", operator.SQLite(file, "_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"))
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlstore.New(db, sqlstore.SQLite, table)
	if err == nil {
		_, _, err = s.List(ctx, "", 1)
	}
	if err != nil {
		db.Close()
		return nil, nil, inTable(err, table)
	}
	return s, func() { db.Close() }, nil
}

// inTable adds to an error about a table where its name is from.
func inTable(err error, table string) error {
	if table == "" || !strings.Contains(err.Error(), table) {
		return err
	}
	return fmt.Errorf("%w: --table names the one that the service gave its store", err)
}

func openPostgres(ctx context.Context, dsn, table string) (idempotency.Store, func(), error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := pgxstore.New(pool, table)
	if err == nil {
		_, _, err = s.List(ctx, "", 1)
	}
	if err != nil {
		pool.Close()
		return nil, nil, inTable(err, table)
	}
	return s, pool.Close, nil
}

func openMySQL(ctx context.Context, dsn, table string) (idempotency.Store, func(), error) {
	config, err := operator.MySQL(dsn)
	if err != nil {
		return nil, nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, nil, operator.Call(err)
	}
	db := sql.OpenDB(connector)
	s, err := mysqlstore.New(db, table)
	if err == nil {
		_, _, err = s.List(ctx, "", 1)
	}
	if err != nil {
		db.Close()
		return nil, nil, inTable(err, table)
	}
	return s, func() { db.Close() }, nil
}

func openRedis(ctx context.Context, dsn, prefix string) (idempotency.Store, func(), error) {
	client, err := operator.Redis(dsn)
	if err != nil {
		return nil, nil, err
	}
	s, err := redisstore.New(ctx, client, redisstore.Options{Prefix: prefix})
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return s, func() { _ = client.Close() }, nil
}

func openNATS(ctx context.Context, dsn, bucket string) (idempotency.Store, func(), error) {
	if bucket == "" {
		return nil, nil, operator.Wrongf("--bucket is missing: a NATS server has many")
	}
	js, err := operator.NATS(dsn, "gabion idempotency")
	if err != nil {
		return nil, nil, err
	}
	s, err := openBucket(ctx, js, bucket)
	if err != nil {
		js.Conn().Close()
		return nil, nil, err
	}
	return s, js.Conn().Close, nil
}

func openBucket(ctx context.Context, js jetstream.JetStream, bucket string) (*natsstore.Store, error) {
	stream, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	return natsstore.Open(ctx, js, natsstore.Options{Bucket: bucket, Storage: stream.CachedInfo().Config.Storage})
}
