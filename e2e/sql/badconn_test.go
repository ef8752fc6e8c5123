package sql

import (
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// lib/pq returns driver.ErrBadConn for statements that were sent, too. database/sql repeats
// them then, up to twice. Exec does not, and says that they may have happened.
func TestABadConnectionOfLibPQProvesNothing(t *testing.T) {
	db := open(t, "postgres", testservers.Postgres(t), 4)
	execute(t, db, "CREATE SEQUENCE runs")
	d := gabion.New("db", policy.Policy{Retry: policy.Retry{Attempts: 3}})
	_, err := gabionsql.Exec(t.Context(), d, db, "SELECT nextval('runs'), pg_terminate_backend(pg_backend_pid())")
	if n := count(t, db, "SELECT last_value FROM runs"); n > 3 || said(err) != unknown {
		t.Errorf("it ran %d times: %v", n, err)
	}
}
