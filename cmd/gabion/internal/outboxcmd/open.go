package outboxcmd

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/messages/outbox"
)

// open opens an outbox that is there: it makes no file and no table.
func open(ctx context.Context, o *options) (*outbox.Outbox, func(), error) {
	return operator.SQL(ctx, o.store, "give the path of the program's database", func(ctx context.Context, db *sql.DB, driver string) (*outbox.Outbox, error) {
		d := outbox.Postgres
		if driver == "sqlite" {
			d = outbox.SQLite
		}
		box, err := outbox.New(db, d, o.table, outbox.Options{})
		if err != nil {
			return nil, operator.Call(err)
		}
		err = box.Check(ctx)
		if err != nil && (strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "42P01")) {
			err = fmt.Errorf("%w: it has no outbox of that name. --table names it if it is not outbox", err)
		}
		return box, err
	})
}
