package fixes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
)

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

func wraps(ctx context.Context, d *gabion.Dependency, s store) error {
	return d.Run(ctx, func(attempt context.Context) error {
		if err := s.Save(ctx); err != nil { // want `G115`
			return fmt.Errorf("saving: %w", err)
		}
		return nil
	})
}

func serves(h http.Handler) error {
	s := &http.Server{Addr: ":8080", Handler: h} // want `G125`
	return s.ListenAndServe()
}
