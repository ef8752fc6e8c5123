package gabionpgx

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
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

// failedBatch are the results of a batch that was not sent.
type failedBatch struct{ err error }

func (f failedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }
func (f failedBatch) Query() (pgx.Rows, error)         { return failedRows(f), f.err }
func (f failedBatch) QueryRow() pgx.Row                { return &row{err: f.err} }
func (f failedBatch) Close() error                     { return f.err }
func (f failedBatch) Tx() pgx.Tx                       { return nil }
