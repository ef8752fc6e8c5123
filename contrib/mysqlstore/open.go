package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

// What Open sets, as the driver's authors advise: a pool without a bound meets the server's
// max_connections, and a connection that is too old may have been closed by something in
// between.
const (
	connections = 32
	lifetime    = 3 * time.Minute
)

// Open opens a database by its data source name, such as
// "user:password@tcp(db.internal:3306)/shop", and creates the table of records if it is
// missing. The program's own tables may be in the same database: effects in them commit
// together with their record. The caller closes the database.
//
// The pool has at most 32 connections, which the caller may change: each transaction of
// work holds one. Values are sent within their statement (interpolateParams), which saves a
// round trip.
func Open(ctx context.Context, dsn, table string) (*sql.DB, *sqlstore.Store, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("mysqlstore: %w", err)
	}
	config.InterpolateParams = true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, nil, fmt.Errorf("mysqlstore: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxLifetime(lifetime)
	store, err := New(db, table)
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("mysqlstore: open: %w", err)
	}
	return db, store, nil
}

// New returns a store in a database that the caller opened with the driver "mysql" of
// github.com/go-sql-driver/mysql, or with a connector that wraps its. It does not ask the
// database anything: call Migrate or Check before the store is used.
func New(db *sql.DB, table string) (*sqlstore.Store, error) {
	return sqlstore.New(db, sqlstore.MySQL, table)
}
