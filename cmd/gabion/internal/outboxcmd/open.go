package outboxcmd

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/outbox"
)

// connectTime bounds how long a database may take to say that it is there.
const connectTime = 15 * time.Second

// open opens an outbox that is there: it makes no file and no table.
func open(ctx context.Context, o *options) (*outbox.Outbox, func(), error) {
	kind, rest, _ := strings.Cut(o.store, ":")
	switch kind {
	case "sqlite":
		if rest == "" {
			return nil, nil, operator.Wrongf("--store names no file: it is sqlite:PATH")
		}
		if err := operator.Regular(rest); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				err = fmt.Errorf("%w: give the path of the program's database", err)
			}
			return nil, nil, err
		}
		return check(ctx, o, outbox.SQLite, "sqlite", operator.SQLite(rest, "mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"))
	case "postgres", "postgresql":
		if err := operator.URL(o.store); err != nil {
			return nil, nil, err
		}
		return check(ctx, o, outbox.Postgres, "pgx", o.store)
	}
	return nil, nil, operator.Wrongf("--store begins with sqlite: or postgres://")
}

func check(ctx context.Context, o *options, d outbox.Dialect, driver, dsn string) (*outbox.Outbox, func(), error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, nil, err
	}
	box, err := outbox.New(db, d, o.table, outbox.Options{})
	if err != nil {
		db.Close()
		return nil, nil, operator.Call(err)
	}
	limited, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if err := box.Check(limited); err != nil {
		db.Close()
		if says := err.Error(); strings.Contains(says, "no such table") || strings.Contains(says, "42P01") {
			err = fmt.Errorf("%w: it has no outbox of that name. --table names it if it is not outbox", err)
		}
		return nil, nil, err
	}
	return box, func() { db.Close() }, nil
}
