package upload

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

type uploader struct {
	hc  *http.Client
	url string
}

func (u *uploader) put(ctx context.Context, name string, r io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.url+name, r)
	if err != nil {
		return err
	}
	resp, err := u.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 5 {
		return errors.New(resp.Status)
	}
	return nil
}

func (u *uploader) Put(ctx context.Context, name string, r io.Reader) error {
	tries := 0
again:
	err := u.put(ctx, name, r)
	if err == nil || tries == 4 || ctx.Err() != nil {
		return err
	}
	tries++
	time.Sleep(time.Duration(1<<tries)*50*time.Millisecond + rand.N(50*time.Millisecond))
	goto again
}
