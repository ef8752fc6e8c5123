package m05

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

type Seat struct {
	Show int64
	Row  int
	No   int
}

type Mailer interface {
	Send(ctx context.Context, to, subject, body string) error
}

type Bookings struct {
	db   *sql.DB
	mail Mailer
}

type coder interface{ SQLState() string }

func serialization(err error) bool {
	var c coder
	return errors.As(err, &c) && (c.SQLState() == "40001" || c.SQLState() == "40P01")
}

// inTx runs fn in a serializable transaction, again where the database says that another one was in its way.
func (b *Bookings) inTx(ctx context.Context, fn func(tx *sql.Tx) error) error {
	for n := 0; ; n++ {
		err := b.try(ctx, fn)
		if !serialization(err) || n == 4 {
			return err
		}
	}
}

func (b *Bookings) try(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (b *Bookings) Book(ctx context.Context, s Seat, guest string) error {
	return b.inTx(ctx, func(tx *sql.Tx) error {
		var taken int
		row := tx.QueryRowContext(ctx, `SELECT count(*) FROM seats WHERE show = $1 AND row = $2 AND no = $3`, s.Show, s.Row, s.No)
		if err := row.Scan(&taken); err != nil {
			return err
		}
		if taken > 0 {
			return errors.New("the seat is taken")
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO seats (show, row, no, guest) VALUES ($1, $2, $3, $4)`, s.Show, s.Row, s.No, guest); err != nil {
			return err
		}
		return b.mail.Send(ctx, guest, "Your seat", fmt.Sprintf("Row %d, seat %d", s.Row, s.No))
	})
}
