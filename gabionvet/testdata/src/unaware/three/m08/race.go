package m08

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

type Booking struct{ hc *http.Client }

func (b *Booking) post(ctx context.Context, seat string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", "https://booking.example.com/seats", strings.NewReader(seat))
	if err != nil {
		return err
	}
	resp, err := b.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("seat %s: %s", seat, resp.Status)
	}
	return nil
}

func (b *Booking) Book(ctx context.Context, seat string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 2)
	run := func() { done <- b.post(ctx, seat) }
	go run()
	select {
	case err := <-done:
		return err
	case <-time.After(80 * time.Millisecond):
		go run()
	}
	return <-done
}
