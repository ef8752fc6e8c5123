package m13

import (
	"context"
	"net"
	"time"
)

func Dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	for attempt := 0; ; attempt++ {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return c, nil
		}
		backoff := 100 * time.Millisecond * time.Duration(1<<uint(attempt))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(backoff):
		}
	}
}
