package m07

import (
	"context"
	"encoding/json"
	"net/http"
)

type Profile struct{ Name string }

type Profiles struct {
	hc  *http.Client
	url string
}

func (p *Profiles) Load(ctx context.Context, id string) (*Profile, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.url+"/"+id, nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out Profile
	return &out, json.NewDecoder(resp.Body).Decode(&out)
}
