// Package retryablehttp stands in for the real one.
package retryablehttp

import (
	"net/http"
	"time"
)

type Client struct {
	RetryMax     int
	RetryWaitMax time.Duration
}

func (c *Client) StandardClient() *http.Client { return nil }

func NewClient() *Client { return &Client{RetryMax: 4} }

func (c *Client) Get(url string) (*http.Response, error) { return nil, nil }

func (*Client) Post(url, bodyType string, body any) (*http.Response, error) { return nil, nil }
