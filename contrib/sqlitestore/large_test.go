package sqlitestore

import (
	"context"
	"errors"
	"testing"

	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// 47: what was read of a large body can't be read again, so a transaction that the
// database wants repeated is the client's to repeat.
func TestLargeBodyIsNotRepeatedOnceItWasRead(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		sqliteShop(t).NotRepeated(func(context.Context) error { return serialization{errors.New("again")} }, nil)
	})
	t.Run("postgres", func(t *testing.T) {
		s := postgresShop(t, testservers.Postgres(t, "default_transaction_isolation=repeatable read"))
		s.Exec("CREATE TABLE accounts (n integer)")
		s.Exec("INSERT INTO accounts VALUES (0)")
		s.Exec("CREATE TABLE late (n integer)")
		s.Exec("CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
		s.Exec("CREATE CONSTRAINT TRIGGER again AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION again()")
		s.NotRepeated(func(ctx context.Context) error { // another transaction changes the row that this one has seen
			sqlstore.TxFrom(ctx).ExecContext(ctx, "SELECT n FROM accounts")
			s.Exec("UPDATE accounts SET n = n + 1")
			_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "UPDATE accounts SET n = n + 1")
			return err
		}, func(ctx context.Context) error {
			_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "INSERT INTO late VALUES (1)")
			return err
		})
	})
}
