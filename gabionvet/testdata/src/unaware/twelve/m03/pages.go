package m03

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

type Item struct {
	ID   string
	Name string
}

type page struct {
	Items []Item
	Next  string
}

type Catalog struct {
	base string
	hc   *http.Client
}

// All reads the whole catalog, page after page.
func (c *Catalog) All(ctx context.Context, category string) ([]Item, error) {
	var all []Item
	q := url.Values{"category": {category}, "limit": {"200"}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/items?"+q.Encode(), nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.hc.Do(req)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", len(all)/200, err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("catalog: %s", resp.Status)
		}
		var p page
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if p.Next == "" {
			return all, nil
		}
		q.Set("after", p.Next)
	}
}
