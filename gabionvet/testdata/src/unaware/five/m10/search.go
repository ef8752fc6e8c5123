// Package m10 makes the client of the search server from a configuration.
//
// Mistake: the number of milliseconds becomes a Duration as it is, which is
// that many nanoseconds. Every call times out.
package m10

import (
	"net/http"
	"time"
)

type Config struct {
	URL       string `json:"url"`
	TimeoutMS int    `json:"timeout_ms"`
	MaxIdle   int    `json:"max_idle"`
}

type Search struct {
	client *http.Client
	url    string
}

func New(cfg Config) *Search {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = cfg.MaxIdle
	return &Search{
		url: cfg.URL,
		client: &http.Client{
			Transport: transport,
			Timeout:   time.Duration(cfg.TimeoutMS),
		},
	}
}
