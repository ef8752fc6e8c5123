package record

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Writer is an Observer that writes every event as a line. Make one with
// [NewWriter]; it is safe for concurrent use and may serve several dependencies.
type Writer struct {
	mu  sync.Mutex // guards all below
	w   io.Writer
	err error
}

// NewWriter returns a Writer that writes to w, a line per Write. Give it a
// bufio.Writer to write in larger pieces, and flush that at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Observe implements gabion.Observer. After the first failure nothing more is
// written, so that a recording has no holes; Err tells.
func (r *Writer) Observe(_ context.Context, e gabion.Event) {
	text, err := json.Marshal(LineOf(e))
	text = append(text, '\n')
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	if err == nil {
		_, err = r.w.Write(text)
	}
	r.err = err
}

// Err returns the first failure, or nil.
func (r *Writer) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// LineOf is e as it is written.
func LineOf(e gabion.Event) Line {
	l := Line{
		At: int64(e.At), Kind: e.Kind.String(), Dependency: e.Dependency, Operation: e.Operation,
		Partition: e.Partition, Call: e.Call, Seq: e.Seq, Attempt: int(e.Attempt), Hedge: e.Hedge,
		Slow: e.Slow, Took: e.Took, Wait: e.Wait, Until: int64(e.Until), Due: int64(e.Due),
		Calls: e.Calls, Failures: e.Failures, Slows: e.Slows, Count: e.Count,
	}
	if e.Reason != policy.None {
		l.Reason = e.Reason.String()
	}
	switch e.Kind {
	case policy.AttemptSettled, policy.LoserSettled:
		l.Class, l.Effect = e.Class.String(), e.Effect.String()
	case policy.Returned:
		l.Effect = e.Effect.String()
	case policy.BreakerMoved, policy.BreakerExceeded:
		l.From, l.To, l.Cause = e.From.String(), e.To.String(), e.Cause.String()
	}
	return l
}
