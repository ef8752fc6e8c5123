package e2e

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
	"github.com/go-resty/resty/v2"
)

func catalog() policy.Policy {
	return policy.Policy{Retry: policy.Retry{Backoff: backoff.Full(time.Millisecond, 5*time.Millisecond)}}
}

// resty under gabion: a blip is ridden out, POST is not repeated, and the last
// answer is there to be read. resty retries only when asked to, so nothing needs to
// be switched off.
func TestRestyOverGabion(t *testing.T) {
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 || r.Method == "POST" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"name":"kettle"}`))
	}))
	defer s.Close()
	client := resty.New().SetBaseURL(s.URL).
		SetTransport(&gabionhttp.Transport{Dependency: gabion.New("catalog", catalog())})

	var item struct{ Name string }
	_, err := client.R().SetContext(t.Context()).SetResult(&item).Get("/items/7")
	if err != nil || item.Name != "kettle" || n.Load() != 2 {
		t.Errorf("%v, %v after %d requests", item, err, n.Load())
	}
	resp, err := client.R().SetContext(t.Context()).SetBody(`{}`).Post("/items")
	if err != nil || resp.StatusCode() != 503 || n.Load() != 3 {
		t.Errorf("%v, %v after %d requests", resp.Status(), err, n.Load())
	}
}

// A refusal reaches the caller through resty as the error that it is.
func TestRestyKeepsTheReason(t *testing.T) {
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	p := catalog()
	p.Breaker.Consecutive = 2
	client := resty.New().SetBaseURL(s.URL).SetTransport(&gabionhttp.Transport{Dependency: gabion.New("catalog", p)})
	client.R().Get("/")
	_, err := client.R().Get("/")
	var e *gabion.Error
	if !errors.Is(err, policy.BreakerOpen) || !errors.As(err, &e) || e.RetryAfter <= 0 || n.Load() != 2 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
}
