package m11

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"
)

type Entry struct {
	Who  string
	What string
	At   time.Time
}

type Trail interface {
	Append(ctx context.Context, e Entry) error
}

type Users interface {
	Delete(ctx context.Context, id string) error
}

type API struct {
	users Users
	trail Trail
}

func (a *API) Routes(mux *http.ServeMux) {
	mux.HandleFunc("DELETE /users/{id}", a.remove)
}

func (a *API) remove(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if err := a.users.Delete(r.Context(), id); err != nil {
		slog.Error("delete", "user", id, "err", err)
		http.Error(w, "could not delete the user", http.StatusInternalServerError)
		return
	}
	go a.audit(r.Context(), Entry{Who: r.Header.Get("X-User"), What: "delete " + id, At: time.Now()})
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]string{"deleted": id})
}

func (a *API) audit(ctx context.Context, e Entry) {
	if err := a.trail.Append(ctx, e); err != nil {
		slog.Error("audit", "entry", e, "err", err)
	}
}
