package m06

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

type Inventory interface {
	Available(ctx context.Context, sku string) (int, error)
}

func Handler(inv Inventory) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.TODO(), 5*time.Second)
		defer cancel()
		n, err := inv.Available(ctx, r.PathValue("sku"))
		if err != nil {
			http.Error(w, "try later", http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]int{"available": n})
	}
}
