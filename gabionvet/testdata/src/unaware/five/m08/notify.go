// Package m08 sends notifications.
//
// Mistake: err in the loop is another variable than the one that is returned.
// When all attempts fail, Send reports success.
package m08

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

type Sender struct {
	client *http.Client
	url    string
}

func (s *Sender) Send(ctx context.Context, id string) error {
	var err error
	for attempt := 0; attempt < 3; attempt++ {
		err := s.send(ctx, id)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(time.Duration(attempt+1) * 200 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
	return err
}

func (s *Sender) send(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.url+"/notifications/"+id, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("send %s: %s", id, resp.Status)
	}
	return nil
}
