package m12

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/gabion-go/gabion"
)

type Profile struct{ Name string }

func Load(ctx context.Context, dep *gabion.Dependency, hc *http.Client, id string) (Profile, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://profiles.internal/"+id, nil)
	if err != nil {
		return Profile{}, err
	}
	return gabion.Do(ctx, dep, func(attempt context.Context) (p Profile, err error) {
		resp, err := hc.Do(req)
		if err != nil {
			return p, err
		}
		defer resp.Body.Close()
		err = json.NewDecoder(resp.Body).Decode(&p)
		return p, err
	})
}
