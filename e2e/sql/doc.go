// Package sql holds gabionsql against real databases and their drivers: what is committed
// is what its errors say.
package sql
