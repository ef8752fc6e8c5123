// Package planted holds the thirteen mistakes of which the linters of the field found five:
// each want is one.
package planted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
)

var api = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}

var slow = &http.Client{}

// 1: no context and no timeout.
func status(url string) (int, error) {
	resp, err := http.Get(url) // want `G105: http.Get has no timeout and no context`
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// 2: the body is never closed.
func healthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := api.Do(req) // want `G108: the body of this answer is never closed`
	return err == nil && resp.StatusCode == http.StatusOK
}

// 3: a handler that calls with a context of its own.
func handle(w http.ResponseWriter, r *http.Request) {
	user, err := fetch(context.Background(), r.URL.Query().Get("user")) // want `G121: context.Background\(\) drops r.Context\(\)`
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	json.NewEncoder(w).Encode(user)
}

// 4: a fresh timeout that ignores what is left of the caller's.
func fetch(ctx context.Context, user string) (string, error) {
	own, cancel := context.WithTimeout(context.Background(), 5*time.Second) // want `G121: context.Background\(\) drops ctx`
	defer cancel()
	req, err := http.NewRequestWithContext(own, http.MethodGet, "https://users.example/"+user, nil)
	if err != nil {
		return "", err
	}
	resp, err := api.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	name, err := io.ReadAll(resp.Body)
	return string(name), err
}

// 5: the error is wrapped, so it never is this one.
func timedOut(req *http.Request) bool {
	resp, err := api.Do(req)
	if err == context.DeadlineExceeded { // want `G114: api.Do wraps its errors`
		return true
	}
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return false
}

// 6: a server that waits for ever for a header.
func serve() error {
	return http.ListenAndServe(":8080", nil) // want `G125: http.ListenAndServe has no timeouts`
}

// 7: a client without Timeout, and a context without a deadline.
func profile(w http.ResponseWriter, r *http.Request) {
	if err := load(r.Context(), w); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

func load(ctx context.Context, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://users.example/me", nil)
	if err != nil {
		return err
	}
	resp, err := slow.Do(req) // want `G107: slow has no Timeout and the request's context has no deadline`
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}

// 8: closed, but not drained.
func ping(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := api.Do(req) // want `G109: the body of this answer is closed and never read`
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// 9: a fixed sleep, no end, and deaf to its context.
func untilItWorks(ctx context.Context) string {
	for { // want `G102: this loop repeats fetch until it succeeds`
		user, err := fetch(ctx, "me")
		if err == nil {
			return user
		}
		time.Sleep(time.Second) // want `G101: this loop waits time.Second each time` `G103: time.Sleep ignores ctx`
	}
}

// 10: exponential, without jitter, and whatever the error is.
func withBackoff(user string) (name string, err error) {
	wait := 100 * time.Millisecond
	for range 5 {
		name, err = fetch(context.TODO(), user) // want `G104: this loop repeats fetch whatever its error says`
		if err == nil {
			return name, nil
		}
		time.Sleep(wait) // want `G101: this loop waits wait before it tries again, without jitter`
		wait *= 2
	}
	return "", err
}

// 11: a new key for every attempt.
func charge(ctx context.Context, order []byte) error {
	var last error
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://bank.example/charges", bytes.NewReader(order))
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", uuid.NewString()) // want `G112: this loop makes a new idempotency key on every attempt`
		resp, err := api.Do(req)
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return nil
		}
		last = err
	}
	return last
}

// 12: one reader for all attempts.
func upload(ctx context.Context, url string, data io.Reader) error {
	var last error
	for range 3 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, data) // want `G110: this loop sends the same reader on every attempt`
		if err != nil {
			return err
		}
		resp, err := api.Do(req)
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return nil
		}
		last = err
	}
	return last
}

// 13: a transport for each iteration.
func all(ctx context.Context, urls []string) error {
	for _, url := range urls {
		client := &http.Client{Transport: &http.Transport{MaxIdleConns: 10}} // want `G119: this http.Transport is made anew in each iteration`
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return nil
}
