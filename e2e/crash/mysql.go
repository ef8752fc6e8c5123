package crash

import (
	"bytes"
	"context"
	"database/sql"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion/contrib/mysqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

func startMySQL(t testing.TB, _ string) string {
	t.Helper()
	return testservers.MariaDB(t, "max-connections=200")
}

// openMySQL calls inCommit when the bytes that ask for a commit, or for an update that
// commits by itself, have left.
func openMySQL(ctx context.Context, dsn string, inCommit func()) (*opened, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.InterpolateParams = true
	config.Logger = &mysql.NopLogger{}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		return mysqlConn{c, inCommit}, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(24)
	db.SetMaxIdleConns(24)
	store, err := mysqlstore.New(db, "records")
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return withEffects(ctx, db, store)
}

type mysqlConn struct {
	net.Conn
	inCommit func()
}

// header is what comes before the text of a statement: its length, a number, a command.
const header = 5

func (c mysqlConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if len(b) > header && (bytes.HasPrefix(b[header:], []byte("COMMIT")) || bytes.HasPrefix(b[header:], []byte("UPDATE"))) {
		c.inCommit()
	}
	return n, err
}
