// Package m11 runs a report from a handler.
//
// Mistake: a database is opened for each request and never closed. Each leaves
// its connections behind until the server refuses new ones.
package m11

import (
	"database/sql"
	"fmt"
	"net/http"
)

type Report struct {
	driver, dsn string
}

func (h *Report) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	db, err := sql.Open(h.driver, h.dsn)
	if err != nil {
		http.Error(w, "no database", http.StatusServiceUnavailable)
		return
	}
	var n int
	if err := db.QueryRowContext(r.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
		http.Error(w, "no report", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(w, "%d\n", n)
}
