package m01

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// signingKeys are fixed for the life of a pod; a rotation comes with a deploy.
type signingKeys map[string][]byte

type tokenVerifier struct {
	keys func() (signingKeys, error)
}

func newTokenVerifier(hc *http.Client, url string) *tokenVerifier {
	return &tokenVerifier{
		// WRONG: OnceValues keeps the error too; if the identity provider hiccups on the first request, every login of this pod fails until a restart
		keys: sync.OnceValues(func() (signingKeys, error) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return fetchKeys(ctx, hc, url)
		}),
	}
}

func (v *tokenVerifier) Key(_ context.Context, kid string) ([]byte, error) {
	keys, err := v.keys()
	if err != nil {
		return nil, err
	}
	return keyByID(keys, kid)
}

type lazyVerifier struct {
	hc    *http.Client
	url   string
	keys  atomic.Pointer[signingKeys]
	turn  chan struct{} // one fetch at a time
	retry time.Time     // guarded by turn
	last  error         // guarded by turn
}

func newLazyVerifier(hc *http.Client, url string) *lazyVerifier {
	return &lazyVerifier{hc: hc, url: url, turn: make(chan struct{}, 1)}
}

// RIGHT
func (v *lazyVerifier) Key(ctx context.Context, kid string) ([]byte, error) {
	if keys := v.keys.Load(); keys != nil {
		return keyByID(*keys, kid)
	}
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if keys := v.keys.Load(); keys != nil {
		return keyByID(*keys, kid)
	}
	if time.Now().Before(v.retry) {
		return nil, fmt.Errorf("keys unavailable: %w", v.last)
	}
	fctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	keys, err := fetchKeys(fctx, v.hc, v.url)
	if err != nil {
		v.last, v.retry = err, time.Now().Add(time.Second)
		return nil, err
	}
	v.keys.Store(&keys)
	return keyByID(keys, kid)
}

func keyByID(keys signingKeys, kid string) ([]byte, error) {
	if k, ok := keys[kid]; ok {
		return k, nil
	}
	return nil, errors.New("unknown key " + kid)
}

func fetchKeys(ctx context.Context, hc *http.Client, url string) (keys signingKeys, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("keys: %s", resp.Status)
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&keys)
	return keys, err
}
