package m04

import (
	"context"
	"database/sql"
	"encoding/csv"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"
)

// blobPutter is the part of the S3 upload manager the export needs; it reads body to EOF.
type blobPutter interface {
	Upload(ctx context.Context, key string, body io.Reader) error
}

type ledgerExport struct {
	db   *sql.DB
	blob blobPutter
}

func (e *ledgerExport) Export(ctx context.Context, day string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	pr, pw := io.Pipe()
	defer pr.Close()
	go func() {
		// WRONG: when the query breaks half-way, Close reports a clean EOF; the truncated ledger is stored as the complete one and Export returns nil
		defer pw.Close()
		if err := e.writeCSV(ctx, pw, day); err != nil {
			slog.ErrorContext(ctx, "ledger export", "day", day, "err", err)
		}
	}()
	if err := e.blob.Upload(ctx, "ledger/"+day+".csv", pr); err != nil {
		return fmt.Errorf("upload ledger %s: %w", day, err)
	}
	return nil
}

// RIGHT
func (e *ledgerExport) ExportWhole(ctx context.Context, day string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	pr, pw := io.Pipe()
	defer pr.Close()
	go func() {
		err := e.writeCSV(ctx, pw, day)
		if err != nil {
			slog.ErrorContext(ctx, "ledger export", "day", day, "err", err)
		}
		pw.CloseWithError(err) // nil is EOF
	}()
	if err := e.blob.Upload(ctx, "ledger/"+day+".csv", pr); err != nil {
		return fmt.Errorf("upload ledger %s: %w", day, err)
	}
	return nil
}

func (e *ledgerExport) writeCSV(ctx context.Context, w io.Writer, day string) error {
	rows, err := e.db.QueryContext(ctx, `SELECT account, cents FROM ledger WHERE day = $1 ORDER BY id`, day)
	if err != nil {
		return err
	}
	defer rows.Close()
	out := csv.NewWriter(w)
	for rows.Next() {
		var account string
		var cents int64
		if err := rows.Scan(&account, &cents); err != nil {
			return err
		}
		if err := out.Write([]string{account, strconv.FormatInt(cents, 10)}); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}
