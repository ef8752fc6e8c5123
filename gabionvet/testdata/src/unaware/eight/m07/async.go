package m07

import (
	"bytes"
	"context"
	"log"
	"net/http"
	"time"
)

type Audit struct {
	hc  *http.Client
	url string
}

func (a *Audit) Record(ctx context.Context, event []byte) error {
	ctx, cancel := context.WithTimeout(context.TODO(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(event))
	if err != nil {
		return err
	}
	resp, err := a.hc.Do(req)
	if err != nil {
		log.Print(err)
		return err
	}
	return resp.Body.Close()
}
