// Package gabionsql calls SQL databases through database/sql, with a gabion.Dependency
// that decides how often, how long and when.
package gabionsql
