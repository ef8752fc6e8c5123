package gabiongrpc

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// StreamInterceptor returns the interceptor for streams. A stream of one request is repeated
// until its header has arrived, which most servers send with the first message; one of many
// requests is repeated only if it could not be opened. From then on it has no timeout of an
// attempt, but those of a result: timeout.idle while the caller waits in RecvMsg, and
// timeout.body. See docs/grpc.md.
func (c *Client) StreamInterceptor() grpc.StreamClientInterceptor { return c.stream }

// StreamClientInterceptor is the StreamInterceptor of a [Client] of d.
func StreamClientInterceptor(d *gabion.Dependency) grpc.StreamClientInterceptor {
	return (&Client{Dependency: d}).StreamInterceptor()
}

func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s := &streamCall{streamer: streamer, desc: desc}
	if err := s.begin(ctx, c, method, conn, opts); err != nil {
		err = s.told(err)
		s.finish(nil, err)
		return nil, err
	}
	s.asked = nil // it reads replies
	if !desc.ClientStreams {
		s.ready = make(chan struct{})
		return s, nil
	}
	if err := s.drive(); err != nil {
		return nil, err
	}
	return s, nil
}

// streamCall is a call that is a stream. The stream that its last attempt opened is its own
// until it ends.
type streamCall struct {
	call
	streamer grpc.Streamer
	desc     *grpc.StreamDesc
	request  any           // of a stream of one request
	sent     atomic.Bool   // it was given
	closed   atomic.Bool   // the address knows how the open stream has ended
	ready    chan struct{} // closed when a stream of one request is open, or will never be; nil for others
	crash    *crash        // how code of the user's left the goroutine that opened it
	err      error         // why it is not open
	attempt  *attempt      // that opened it, or was the last to try

	mu   sync.Mutex      // guards what follows, and how each attempt was left
	open *gabion.Attempt // nil before the verdict
	done bool            // the caller has been told
}

// crash is how a user's code left a goroutine.
type crash struct{ value any }

// drive makes attempts until one has opened the stream.
func (s *streamCall) drive() error {
	var room [maxOptions]gabion.CallOption
	opts := s.gabionOptions(room[:0], gabion.WithClassify(judge), gabion.WithDiscard(nil), gabion.WithoutHedge())
	a, open, err := gabion.Open(s.ctx, s.client.Dependency, s.try, opts...)
	s.attempt = a
	if err != nil {
		if open != nil {
			open.Close(nil)
		}
		s.err = s.told(err)
		s.tell(a, s.err)
		return s.err
	}
	s.adopt(open)
	return nil
}

// driveBeside is drive on a goroutine of its own, so that the sender of the request need not wait
// for the header.
func (s *streamCall) driveBeside() {
	left := true
	defer func() {
		if left {
			s.crash = &crash{recover()}
		}
		close(s.ready)
	}()
	_ = s.drive()
	left, s.request = false, nil
}

// try is one attempt to open the stream.
func (s *streamCall) try(ctx context.Context) (*attempt, error) {
	a := &attempt{stream: s}
	if err := a.prepare(ctx, &s.call); err != nil {
		return a, err
	}
	defer a.crashed()
	st, err := s.streamer(a, s.desc, s.conn, s.method, a.callOptions()...)
	if err == nil {
		a.opens = st
		if !s.desc.ClientStreams {
			err = a.exchange(s.request)
		}
	}
	a.back = true
	return a, a.timedOut(err)
}

// exchange sends the only request of a stream and waits for its header.
func (a *attempt) exchange(request any) error {
	if err := a.opens.SendMsg(request); err != nil && err != io.EOF {
		a.kept = ofStream(err)
		return err
	}
	if err := a.opens.CloseSend(); err != nil {
		return err
	}
	if header, err := a.opens.Header(); err != nil || header != nil {
		return err
	}
	// It is over, so there is no message.
	if a.last = a.opens.RecvMsg(new(emptypb.Empty)); a.last == io.EOF {
		return nil
	}
	if a.last == nil {
		a.last = status.Error(codes.Internal, "gabiongrpc: a message without a header")
	}
	return a.last
}

// timedOut makes a limit of gabion's, which grpc-go takes for a cancel, the deadline that it is.
func (a *attempt) timedOut(err error) error {
	if err == nil || status.Code(err) != codes.Canceled || !errors.Is(a.Err(), context.DeadlineExceeded) {
		return err
	}
	return status.Error(codes.DeadlineExceeded, context.DeadlineExceeded.Error())
}

// adopt takes the attempt that has opened the stream. The stream may have ended by then.
func (s *streamCall) adopt(open *gabion.Attempt) {
	s.mu.Lock()
	s.open = open
	over := s.attempt.left
	s.mu.Unlock()
	if over {
		s.close()
	}
}

// left is called when the stream of an attempt has ended: by grpc-go, on any goroutine, and by
// RecvMsg, since an interceptor can put a stream of its own in the place of grpc-go's.
func (s *streamCall) left(a *attempt, err error) {
	s.mu.Lock()
	if !a.left {
		a.left, a.why = true, err
	}
	open := s.open != nil && s.attempt == a // else it is one that failed before
	s.mu.Unlock()
	if open {
		s.close()
	}
}

// close ends the attempt that has opened the stream, and tells the caller.
func (s *streamCall) close() {
	var broke error
	s.mu.Lock()
	err := s.attempt.why
	s.mu.Unlock()
	if err != nil && s.broke(err) {
		broke = err
	}
	if !s.closed.Swap(true) {
		s.attempt.endsAt(broke != nil)
	}
	s.open.Close(broke)
	s.tell(s.attempt, err)
}

// broke reports whether the end of an open stream is a failure of the dependency, and not an
// answer or the end of the time that the caller gave it.
func (s *streamCall) broke(err error) bool {
	switch a := s.attempt; status.Code(err) {
	case codes.DeadlineExceeded:
		if a.late() {
			return false
		}
	case codes.Internal:
		if a.sending.Load() > 0 && len(a.trailer) == 0 { // a message could not be encoded
			return false
		}
	}
	switch s.attempt.failure(err).Class {
	case policy.ClassNetwork, policy.ClassTimeout, policy.ClassServer, policy.ClassUnclassified:
		return true
	}
	return false
}

// tell tells the caller once that the call is over.
func (s *streamCall) tell(a *attempt, err error) {
	s.mu.Lock()
	done := s.done
	s.done = true
	s.mu.Unlock()
	if !done {
		s.finish(a, err)
	}
}

// await waits until the stream is open, and returns why it never will be.
func (s *streamCall) await() error {
	if s.ready == nil {
		return nil
	}
	select {
	case <-s.ready:
	case <-s.ctx.Done():
		if !s.sent.Load() {
			return status.FromContextError(s.ctx.Err()).Err()
		}
		<-s.ready // it sees that, too
	}
	if s.crash != nil {
		if s.crash.value == nil {
			runtime.Goexit()
		}
		panic(s.crash.value)
	}
	return s.err
}

// opened returns the stream that the last attempt has opened, or nil.
func (s *streamCall) opened() grpc.ClientStream {
	if s.ready != nil {
		select {
		case <-s.ready:
		default:
			return nil
		}
	}
	if s.attempt == nil {
		return nil
	}
	return s.attempt.opens
}

// SendMsg implements grpc.ClientStream.
func (s *streamCall) SendMsg(m any) error {
	if s.desc.ClientStreams {
		s.attempt.sending.Add(1)
		defer s.attempt.sending.Add(-1)
		return s.attempt.opens.SendMsg(m)
	}
	if s.sent.Swap(true) {
		return status.Error(codes.Internal, "gabiongrpc: SendMsg called after the only request was sent")
	}
	s.request = m
	go s.driveBeside()
	return nil
}

// CloseSend implements grpc.ClientStream. That a stream of one request has no other is known.
func (s *streamCall) CloseSend() error {
	if s.desc.ClientStreams {
		return s.attempt.opens.CloseSend()
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *streamCall) RecvMsg(m any) error {
	if err := s.await(); err != nil {
		return err
	}
	a := s.attempt
	if a.last != nil {
		s.left(a, nil) // it is io.EOF
		return a.last
	}
	s.open.Expect()
	err := a.opens.RecvMsg(m)
	s.open.Arrived()
	switch {
	case err == io.EOF, err == nil && !s.desc.ServerStreams:
		s.left(a, nil)
	case err != nil:
		err = s.explain(err)
		s.left(a, err)
	}
	return err
}

// explain says which limit was hit, if that is why the stream broke.
func (s *streamCall) explain(err error) error {
	why, ok := context.Cause(s.open.Context()).(policy.Reason)
	if !ok {
		return err
	}
	return callError{&gabion.Error{
		Dependency: s.client.Dependency.Name(), Reason: why, Effect: policy.UnknownEffect,
		Attempts: gabion.AttemptNumber(s.open.Context()), Err: s.attempt.timedOut(err),
	}}
}

// Header implements grpc.ClientStream. Nil says that the stream ended without one; RecvMsg
// tells why.
func (s *streamCall) Header() (metadata.MD, error) {
	if s.await() != nil {
		return nil, nil //nolint:nilerr // as grpc-go does
	}
	return s.attempt.opens.Header()
}

// Trailer implements grpc.ClientStream.
func (s *streamCall) Trailer() metadata.MD {
	if st := s.opened(); st != nil {
		return st.Trailer()
	}
	return nil
}

// Context implements grpc.ClientStream: that of the attempt once the stream is open.
func (s *streamCall) Context() context.Context {
	if st := s.opened(); st != nil {
		return st.Context()
	}
	return s.ctx
}
