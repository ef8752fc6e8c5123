package gabionpgx

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// isNil reports whether there is no database, be it a nil pointer.
func isNil(db Beginner) bool {
	switch db := db.(type) {
	case nil:
		return true
	case *pgxpool.Pool:
		return db == nil
	case *pgxpool.Conn:
		return db == nil
	case *Pool:
		return db == nil
	case *pgx.Conn:
		return db == nil
	}
	return false
}

// poolOf returns the pool, nil if db is a single connection: its pool is not known.
func poolOf(db Beginner) any {
	switch db := db.(type) {
	case *pgxpool.Pool:
		return db
	case *Pool:
		return db.pool
	}
	return nil
}
