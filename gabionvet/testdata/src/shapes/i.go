package shapes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// This goes on what h.go begins.

// keys
func (l *ledger) under(ctx context.Context, method, key string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, l.base, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if method == http.MethodPost && key == "" {
		req.Header.Set("Idempotency-Key", uuid.NewString())
	}
	resp, err := l.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return err
}

func (l *ledger) oneKey(ctx context.Context, body []byte) (err error) {
	key := uuid.NewString()
	for i := range 3 {
		if err = l.under(ctx, http.MethodPost, key, body); err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

func (l *ledger) request(ctx context.Context, req *http.Request) error {
	if req.Method == http.MethodPost && req.Header.Get("Idempotency-Key") == "" {
		req.Header.Set("Idempotency-Key", uuid.NewString())
	}
	resp, err := l.hc.Do(req.WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return err
}

func (l *ledger) oneRequest(ctx context.Context, req *http.Request) (err error) {
	for i := range 3 {
		if err = l.request(ctx, req); err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

type entry struct {
	ID   string
	Day  time.Time
	seen time.Time
	Sent time.Time `json:"-"`
}

func sum(v any) string {
	data, _ := json.Marshal(v)
	all := sha256.Sum256(data)
	return hex.EncodeToString(all[:])
}

func (l *ledger) entered(ctx context.Context, id string) error {
	data, err := json.Marshal(entry{ID: id, Day: time.Now().Truncate(24 * time.Hour)})
	if err != nil {
		return err
	}
	key := sha256.Sum256(data)
	return l.under(ctx, http.MethodPost, hex.EncodeToString(key[:]), data)
}

func (l *ledger) enteredOften(ctx context.Context, id string) (err error) {
	for i := range 3 {
		if err = l.hidden(ctx, id); err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

func (l *ledger) hidden(ctx context.Context, id string) error {
	data, err := json.Marshal(entry{ID: id, seen: time.Now(), Sent: time.Now()})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.base, bytes.NewReader(data))
	if err != nil {
		return err
	}
	key := sha256.Sum256(data)
	req.Header.Set("Idempotency-Key", hex.EncodeToString(key[:]))
	resp, err := l.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return err
}

func (l *ledger) enteredOnce(ctx context.Context, id string) (err error) {
	e := entry{ID: id, Day: time.Now()}
	for i := range 3 {
		if err = l.under(ctx, http.MethodPost, sum(e), nil); err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
	}
	return err
}

// what lives for one piece of work
type cursor struct {
	ctx    context.Context
	cancel context.CancelFunc
	hc     *http.Client
}

func (l *ledger) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+path, nil)
	if err != nil {
		return nil, err
	}
	return l.hc.Do(req)
}

func openCursor(ctx context.Context, hc *http.Client) *cursor {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	return &cursor{ctx: ctx, cancel: cancel, hc: hc}
}

func (c *cursor) Next() (*http.Response, error) {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, "https://a/next", nil)
	if err != nil {
		return nil, err
	}
	return c.hc.Do(req)
}

type download struct {
	ctx    context.Context
	cancel context.CancelFunc
	hc     *http.Client
}

func newDownload(ctx context.Context, hc *http.Client) *download {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	return &download{ctx: ctx, cancel: cancel, hc: hc}
}

func (d *download) part(n int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(d.ctx, http.MethodGet, "https://a/file", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-", n))
	return d.hc.Do(req)
}

type objectReader struct {
	ctx context.Context
	hc  *http.Client
}

func newObjectReader(ctx context.Context, hc *http.Client) (*objectReader, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	return &objectReader{ctx: ctx, hc: hc}, cancel
}

func (d *objectReader) Read() (*http.Response, error) {
	req, err := http.NewRequestWithContext(d.ctx, http.MethodGet, "https://a/file", nil)
	if err != nil {
		return nil, err
	}
	return d.hc.Do(req)
}

type poller struct {
	ctx context.Context
	hc  *http.Client
}

func newPoller(ctx context.Context, hc *http.Client) (*poller, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	return &poller{ctx: ctx, hc: hc}, cancel
}

func (p *poller) look() (*http.Response, error) {
	req, err := http.NewRequestWithContext(p.ctx, http.MethodGet, "https://a/state", nil)
	if err != nil {
		return nil, err
	}
	return p.hc.Do(req)
}

type dialer struct{ hc *http.Client }

func newDialer(ctx context.Context, hc *http.Client) (*dialer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://a/hello", nil)
	if err != nil {
		return nil, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	return &dialer{hc}, err
}
