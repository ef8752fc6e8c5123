package m09

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// mediaOrigin allows a fixed number of downloads from the partner at once.
type mediaOrigin struct {
	hc    *http.Client // dial, TLS and header timeouts in its Transport
	base  string
	slots chan struct{}
}

func newMediaOrigin(hc *http.Client, base string, parallel int) *mediaOrigin {
	return &mediaOrigin{hc: hc, base: base, slots: make(chan struct{}, parallel)}
}

func (o *mediaOrigin) acquire(ctx context.Context) (release func(), err error) {
	select {
	case o.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-o.slots }), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("media origin busy: %w", ctx.Err())
	}
}

// slotBody gives the slot back when the download is closed.
type slotBody struct {
	io.ReadCloser
	release func()
}

func (b *slotBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

func (o *mediaOrigin) Open(ctx context.Context, id string) (io.ReadCloser, error) {
	release, err := o.acquire(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := o.get(ctx, id)
	if err != nil {
		release()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		// WRONG: the slot is not given back here; after as many 404s or 503s as there are slots every download waits forever
		return nil, fmt.Errorf("media %s: %s", id, resp.Status)
	}
	return &slotBody{resp.Body, release}, nil
}

// RIGHT
func (o *mediaOrigin) OpenReleased(ctx context.Context, id string) (_ io.ReadCloser, err error) {
	release, err := o.acquire(ctx)
	if err != nil {
		return nil, err
	}
	handedOver := false
	defer func() {
		if !handedOver {
			release()
		}
	}()
	resp, err := o.get(ctx, id)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("media %s: %s", id, resp.Status), resp.Body.Close())
	}
	handedOver = true
	return &slotBody{resp.Body, release}, nil
}

func (o *mediaOrigin) get(ctx context.Context, id string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.base+"/media/"+url.PathEscape(id), nil)
	if err != nil {
		return nil, err
	}
	return o.hc.Do(req)
}
