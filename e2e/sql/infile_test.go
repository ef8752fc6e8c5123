package sql

import (
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/iotest"

	"github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// The driver returns what the program's own reader of a LOAD DATA says. As a text, and marked, it
// is no failure of the database.
func TestAReaderOfLoadDataThatFails(t *testing.T) {
	dsn := testservers.MariaDB(t, "local_infile=1")
	execute(t, open(t, "mysql", dsn, 1), "CREATE TABLE loaded (n integer) ENGINE=InnoDB")
	mine := errors.New("the file is gone")
	broken := &fs.PathError{Op: "read", Path: "numbers", Err: mine}
	for fact, c := range map[string]struct {
		err      error
		failures uint64
	}{
		"its error is a text":  {mine, 0},
		"its error has a type": {broken, 1},
		"that is marked":       {classify.Permanent(broken), 0},
	} {
		t.Run(fact, func(t *testing.T) {
			mysql.RegisterReaderHandler("broken", func() io.Reader { return iotest.ErrReader(c.err) })
			defer mysql.DeregisterReaderHandler("broken")
			config, err := mysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			base, err := mysql.NewConnector(config)
			if err != nil {
				t.Fatal(err)
			}
			d := gabion.New("db", policy.Policy{})
			db := sql.OpenDB(gabionsql.Connector(base, d))
			defer db.Close()
			_, err = db.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE 'Reader::broken' INTO TABLE loaded")
			if got := d.Stats().Main.Breaker.Counts.Failures; !errors.Is(err, mine) || uint64(got) != c.failures {
				t.Errorf("%d failures: %v", got, err)
			}
		})
	}
}
