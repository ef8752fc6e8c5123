// Package sqlletters keeps dead letters in a SQL database: SQLite for the processes of one
// machine, PostgreSQL for those of many.
//
// It links no driver. contrib/sqlitestore/sqliteletters opens a SQLite file as it should be opened. For
// PostgreSQL open a database/sql pool with a driver such as pgx, and give it to [New].
//
// The letters lie in tables that SQL can look at. Names, keys, texts and headers are text in
// SQLite, and bytea in PostgreSQL, since messages may have any bytes:
//
//	SELECT convert_from(grp, 'UTF8'), state, count(*) FROM dead_letters GROUP BY 1, 2
package sqlletters
