// Package planted holds mistakes that noctx, bodyclose, errorlint and govet do not find.
package planted

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
)

var api = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}

var slow = &http.Client{}

func fetch(ctx context.Context, user string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://users.example/"+user, nil)
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

// 1: a server that waits for ever for a header.
func serve() error {
	return http.ListenAndServe(":8080", nil) // want `G125: http.ListenAndServe has no timeouts`
}

// 2: a client without Timeout, and a context without a deadline.
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

// 3: closed, but not drained.
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

// 4: a fixed sleep, no end, and deaf to its context.
func untilItWorks(ctx context.Context) string {
	for { // want `G102: this loop repeats fetch until it succeeds`
		user, err := fetch(ctx, "me")
		if err == nil {
			return user
		}
		time.Sleep(time.Second) // want `G101: this loop waits time.Second each time` `G103: time.Sleep ignores ctx`
	}
}

// 5: exponential, without jitter, and whatever the error is.
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

// 6: a new key for every attempt.
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

// 7: one reader for all attempts.
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

// 8: a transport for each iteration.
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

// 9: each answer but the last keeps its body open.
func patient(req *http.Request) (*http.Response, error) {
	var last error
	for range 3 {
		resp, err := api.Do(req) // want `G108: when this loop tries again after an answer`
		if err != nil {
			last = err
			continue
		}
		if resp.StatusCode == http.StatusServiceUnavailable {
			last = errors.New(resp.Status)
			continue
		}
		return resp, nil
	}
	return nil, last
}

// 10: a handler that calls with a context of its own.
func handle(w http.ResponseWriter, r *http.Request) {
	if _, err := fetch(context.Background(), r.URL.Query().Get("user")); err != nil { // want `G121: context.Background\(\) drops r.Context\(\)`
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

// 11: a fresh timeout that ignores what is left of the caller's.
func hurried(ctx context.Context, user string) (string, error) {
	own, cancel := context.WithTimeout(context.Background(), 5*time.Second) // want `G121: context.Background\(\) drops ctx`
	defer cancel()
	name, err := fetch(own, user)
	return name, err
}
