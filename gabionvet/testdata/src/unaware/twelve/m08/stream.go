package m08

import (
	"bufio"
	"context"
	"net"
	"time"
)

type Handler func(line string) error

type Stream struct {
	addr   string
	dialer net.Dialer
	handle Handler
}

// Run keeps a connection to the broker and hands over its lines until ctx ends.
func (s *Stream) Run(ctx context.Context) error {
	attempt := 0
	for ctx.Err() == nil {
		err := s.session(ctx)
		if err == nil {
			attempt = 0
			continue
		}
		wait := time.Second << attempt
		attempt++
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (s *Stream) session(ctx context.Context) error {
	conn, err := s.dialer.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in := bufio.NewScanner(conn)
	for in.Scan() {
		if err := s.handle(in.Text()); err != nil {
			return err
		}
	}
	return in.Err()
}
