package fixes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
)

func fetch(ctx context.Context) error { return errors.ErrUnsupported }

type store interface {
	Save(ctx context.Context) error
}

func sleeps(ctx context.Context, s store) error {
	var err error
	for range 3 {
		if err = s.Save(ctx); err == nil {
			return nil
		}
		time.Sleep(rand.N(time.Second)) // want `G103`
	}
	return err
}

func comesBack(s store) error {
	var err error
	for range 3 {
		if err = s.Save(context.Background()); err == nil {
			return nil
		}
		time.Sleep(time.Second) // want `G101`
	}
	return err
}

func request(ctx context.Context, c *http.Client) error {
	req, err := http.NewRequest("GET", "https://a.example", nil) // want `G106`
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err == context.Canceled { // want `G114`
		return nil
	}
	if err != nil {
		return err
	}
	return resp.Write(nil)
}

func wraps(ctx context.Context, d *gabion.Dependency, s store) error {
	return d.Run(ctx, func(attempt context.Context) error {
		if err := s.Save(ctx); err != nil { // want `G115`
			return fmt.Errorf("saving: %v", err) // want `G113`
		}
		return nil
	})
}

func cancels(parent context.Context) error {
	ctx, _ := context.WithTimeout(parent, time.Second) // want `G117`
	return fetch(ctx)
}

func serves(h http.Handler) error {
	s := &http.Server{Addr: ":8080", Handler: h} // want `G125`
	return s.ListenAndServe()
}
