package m05

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/gabion-go/gabion"
)

type Rates struct {
	dep    *gabion.Dependency
	client *http.Client
}

func NewRates(dep *gabion.Dependency) *Rates {
	return &Rates{dep: dep, client: &http.Client{}}
}

func (r *Rates) Latest(ctx context.Context, base string) (map[string]float64, error) {
	return gabion.Do(ctx, r.dep, func(context.Context) (map[string]float64, error) {
		resp, err := r.client.Get("https://rates.example.com/latest?base=" + base)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		var out map[string]float64
		err = json.NewDecoder(resp.Body).Decode(&out)
		return out, err
	})
}
