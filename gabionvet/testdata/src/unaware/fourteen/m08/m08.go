package m08

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

type payEvent struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

type payHook struct {
	db     *sql.DB
	secret []byte
}

type hookExecer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (h *payHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ev, err := h.parse(w, r)
	if err != nil {
		http.Error(w, "bad event", http.StatusBadRequest)
		return
	}
	// WRONG: the event is committed as seen before it is applied; when the credit fails, the redelivery is dropped as a duplicate and the money is lost
	fresh, err := claimEvent(r.Context(), h.db, ev.ID)
	if err == nil && fresh {
		err = h.inTx(r.Context(), func(tx *sql.Tx) error { return creditEvent(r.Context(), tx, ev) })
	}
	if err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// RIGHT
func (h *payHook) ServeAtomic(w http.ResponseWriter, r *http.Request) {
	ev, err := h.parse(w, r)
	if err != nil {
		http.Error(w, "bad event", http.StatusBadRequest)
		return
	}
	err = h.inTx(r.Context(), func(tx *sql.Tx) error {
		fresh, err := claimEvent(r.Context(), tx, ev.ID)
		if err != nil || !fresh {
			return err
		}
		return creditEvent(r.Context(), tx, ev)
	})
	if err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func claimEvent(ctx context.Context, x hookExecer, id string) (bool, error) {
	res, err := x.ExecContext(ctx, `INSERT INTO webhook_seen (id) VALUES ($1) ON CONFLICT DO NOTHING`, id)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

func creditEvent(ctx context.Context, x hookExecer, ev payEvent) error {
	res, err := x.ExecContext(ctx, `UPDATE accounts SET cents = cents + $1 WHERE id = $2`, ev.Cents, ev.Account)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(errors.New("account not credited: "+ev.Account), err)
	}
	return nil
}

func (h *payHook) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (h *payHook) parse(w http.ResponseWriter, r *http.Request) (ev payEvent, err error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return ev, err
	}
	mac := hmac.New(sha256.New, h.secret)
	mac.Write(raw)
	if !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(r.Header.Get("X-Signature"))) {
		return ev, errors.New("signature")
	}
	return ev, json.Unmarshal(raw, &ev)
}
