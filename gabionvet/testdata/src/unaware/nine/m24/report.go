package report

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
)

type reports struct{ db *sql.DB }

func (s *reports) total(month string) (sum int64, err error) {
	ctx := context.Background()
	err = s.db.QueryRowContext(ctx, "SELECT sum(cents) FROM sales WHERE month = $1", month).Scan(&sum)
	return sum, err
}

func (s *reports) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sum, err := s.total(r.PathValue("month"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(sum)
}
