// Package m13 asks a carrier where parcels are.
//
// Mistake: every call makes a transport of its own. No connection is used
// again, and the idle ones stay open until the process has no descriptors.
package m13

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

type Place struct {
	City string `json:"city"`
	At   string `json:"at"`
}

type Carrier struct {
	base string
	tls  *tls.Config
}

func (c *Carrier) httpClient() *http.Client {
	return &http.Client{
		Timeout:   4 * time.Second,
		Transport: &http.Transport{TLSClientConfig: c.tls, MaxIdleConns: 20},
	}
}

func (c *Carrier) Where(ctx context.Context, parcel string) (*Place, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/parcels/"+parcel, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.httpClient().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("parcel %s: %s", parcel, resp.Status)
	}
	var p Place
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		return nil, err
	}
	return &p, nil
}
