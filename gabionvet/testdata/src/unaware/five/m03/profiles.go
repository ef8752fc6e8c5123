// Package m03 reads profiles with a token that expires.
//
// Mistake: a 401 fetches a new token and calls the same method again, with no
// bound. An account that was blocked makes it call itself for ever.
package m03

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

type Profile struct {
	ID   string
	Name string
}

type Client struct {
	http    *http.Client
	base    string
	token   string
	refresh func(context.Context) (string, error)
}

func (c *Client) Profile(ctx context.Context, id string) (*Profile, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/profiles/"+id, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		var p Profile
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			return nil, err
		}
		return &p, nil
	case http.StatusUnauthorized:
		token, err := c.refresh(ctx)
		if err != nil {
			return nil, err
		}
		c.token = token
		return c.Profile(ctx, id)
	default:
		return nil, fmt.Errorf("profile %s: %s", id, resp.Status)
	}
}
