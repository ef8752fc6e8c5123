package fresh

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/sony/gobreaker"
)

type Handler struct {
	hc *http.Client
}

func NewHandler() *Handler { return &Handler{hc: &http.Client{Timeout: 3 * time.Second}} }

func guarded(f func() (any, error)) (any, error) {
	cb := gobreaker.NewCircuitBreaker(gobreaker.Settings{Name: "stock"})
	return cb.Execute(f)
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := guarded(func() (any, error) {
		req, err := http.NewRequestWithContext(r.Context(), "GET", "http://stock/"+r.PathValue("sku"), nil)
		if err != nil {
			return nil, err
		}
		resp, err := h.hc.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		var n int
		err = json.NewDecoder(resp.Body).Decode(&n)
		return n, err
	})
	if err != nil {
		http.Error(w, "stock", http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(v)
}
