package dial

import (
	"context"
	"log"
	"math/rand/v2"
	"net"
	"time"
)

type Feed struct{ addr string }

func (f *Feed) connect(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	delay := 100 * time.Millisecond
	for {
		c, err := d.DialContext(ctx, "tcp", f.addr)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		log.Printf("feed: %v, next try in %v", err, delay)
		select {
		case <-time.After(delay + rand.N(delay)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		delay *= 2
	}
}
