package m01

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"time"
)

type User struct{ ID, Email string }

type API struct{ hc http.Client }

func (a *API) fetch(ctx context.Context, id string) (*User, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "https://users.internal/v1/"+id, nil)
	if err != nil {
		return nil, err
	}
	res, err := a.hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("users: status %d", res.StatusCode)
	}
	u := new(User)
	return u, json.NewDecoder(res.Body).Decode(u)
}

func (a *API) User(ctx context.Context, id string) (u *User, err error) {
	for i := 0; i < 4; i++ {
		u, err = a.fetch(ctx, id)
		if err == nil {
			return u, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(rand.Intn(100<<i)) * time.Millisecond):
		}
	}
	return nil, err
}
