// Package gabionpgx is gabionsql for pgx without database/sql: it calls PostgreSQL through
// pgx connections and pools, with a gabion.Dependency that decides how often, how long and
// when.
package gabionpgx
