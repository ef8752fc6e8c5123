package gabiongrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// turner is an HTTP/2 server that turns every stream away without looking at it.
type turner struct {
	goAway  bool // with its connection
	cuts    bool // the connection instead, as a server does that dies
	streams atomic.Int64
}

func (s *turner) dial(context.Context, string) (net.Conn, error) {
	here, there := net.Pipe()
	go s.serve(there)
	return here, nil
}

func (s *turner) serve(c net.Conn) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	write := make(chan func() error, 100) // a pipe has no room, so who reads must not write
	defer close(write)
	go func() {
		for w := range write {
			if w() != nil {
				c.Close()
			}
		}
	}()
	write <- func() error { return f.WriteSettings() }
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				write <- f.WriteSettingsAck
			}
		case *http2.HeadersFrame:
			s.streams.Add(1)
			id := frame.StreamID
			if s.cuts {
				return
			}
			if s.goAway {
				write <- func() error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }
			} else {
				write <- func() error { return f.WriteRSTStream(id, http2.ErrCodeRefusedStream) }
			}
		}
	}
}

// C69: what grpc-go sends again by itself costs no attempt, and is bounded.
func TestWhatGRPCSendsAgainByItselfIsCounted(t *testing.T) {
	for _, c := range []struct {
		fact     string
		server   *turner
		opts     []grpc.CallOption
		attempts int
		streams  int64
		hidden   int64
		effect   gabion.Effect
	}{
		{"a refused stream once, and no more, though the call is not safe", &turner{}, nil, 1, 2, 1, policy.UnknownEffect},
		{"once for each attempt of a call that is", &turner{}, []grpc.CallOption{safely()}, 3, 6, 3, policy.UnknownEffect},
		{"a call whose connection broke not at all: it may have happened", &turner{cuts: true}, nil, 1, 1, 0, policy.UnknownEffect},
		{"GOAWAY in the same way", &turner{goAway: true}, nil, 1, 2, 1, policy.UnknownEffect},
	} {
		t.Run(c.fact, func(t *testing.T) {
			used := new(gabiongrpc.Client)
			handler := used.StatsHandler()
			inRoomOf(t, plain(), func(made *gabiongrpc.Client) { used.Dependency = made.Dependency },
				[]grpc.DialOption{grpc.WithContextDialer(c.server.dial), grpc.WithStatsHandler(handler)}, func(r *room) {
					_, err := r.call(c.opts...)
					e, _ := errors.AsType[*gabion.Error](err)
					if e == nil || e.Attempts != c.attempts || e.Effect != c.effect || status.Code(err) != codes.Unavailable {
						t.Error(err)
					}
					if got, hidden := c.server.streams.Load(), used.Hidden(); got != c.streams || hidden != c.hidden {
						t.Errorf("%d streams came, %d hidden", got, hidden)
					}
				})
		})
	}
}
