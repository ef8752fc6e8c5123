package m21

import (
	"context"
	"net/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

type API struct {
	quote func(ctx context.Context, sku string) (string, error)
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	dep := gabion.New("pricing", policy.Policy{})
	price, err := gabion.Do(r.Context(), dep, func(ctx context.Context) (string, error) {
		return a.quote(ctx, r.URL.Query().Get("sku"))
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_, _ = w.Write([]byte(price))
}
