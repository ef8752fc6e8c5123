// Package m05 answers a request and tells an audit server of it.
//
// Mistake: the goroutine uses the context of the request, which ends when the
// handler returns. Most audit records are lost.
package m05

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"time"
)

type Server struct {
	client *http.Client
	audit  string
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := r.Header.Get("X-User")
	go func() {
		if err := s.record(r.Context(), who, r.URL.Path); err != nil {
			log.Printf("audit: %v", err)
		}
	}()
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) record(ctx context.Context, who, what string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]string{"who": who, "what": what})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.audit, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s", resp.Status)
	}
	return nil
}
