package gabionpgx

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/gabion-go/gabion/policy"
)

// failedRows are the rows beside an error of Query. Programs may leave the error out and read
// it here, as pgx.CollectRows and the like do.
type failedRows struct{ err error }

func (failedRows) Close()                                       {}
func (f failedRows) Err() error                                 { return f.err }
func (failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (failedRows) Next() bool                                   { return false }
func (f failedRows) Scan(...any) error                          { return f.err }
func (f failedRows) Values() ([]any, error)                     { return nil, f.err }
func (failedRows) RawValues() [][]byte                          { return nil }
func (failedRows) Conn() *pgx.Conn                              { return nil }
func (failedRows) TypeMap() *pgtype.Map                         { return nil }

// mistaken is an error of the program's own, such as an argument that can't be encoded: it says
// nothing about the database.
type mistaken struct {
	error
	effect policy.Effect
}

// Unwrap returns what pgx or the program said.
func (m mistaken) Unwrap() error { return m.error }

// Outcome says that the request is wrong.
func (m mistaken) Outcome() policy.Outcome {
	return policy.Outcome{Class: policy.ClassClient, Effect: m.effect}
}

// blame says of an error whose fault it was. Whatever breaks between pgx and the server closes
// the connection. So an error that pgx has beside a connection that is open, and that is neither
// the server's nor the context's, is one of the program.
func blame(on *pgx.Conn, err error) error {
	var state *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed): // others may have the connection by now
		return mistaken{err, policy.NoEffect}
	case on == nil || on.IsClosed() || errors.Is(err, pgx.ErrNoRows) || pgconn.SafeToRetry(err):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &state):
		return err
	}
	return mistaken{err, policy.UnknownEffect}
}
