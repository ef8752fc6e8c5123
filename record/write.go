package record

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Writer is an Observer that writes every event as a line. Make one with
// [NewWriter]; it is safe for concurrent use and may serve several dependencies.
type Writer struct {
	mu     sync.Mutex // guards all below
	w      io.Writer
	err    error // of the last failure
	lost   int64 // since the last line that was written
	all    int64
	broken bool // the last failure left a part of a line behind
}

// NewWriter returns a Writer that writes to w, a line per Write. Give it a
// bufio.Writer to write in larger pieces, and flush that at the end; but such a one
// never writes again after a failure, and w itself may.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Observe implements gabion.Observer. An event that can't be written, as on a full
// disk, is lost and counted. The next ones are tried all the same, and the first line
// after a gap says how many are missing, as kind events_lost. The first failure of a
// gap is logged by slog.Default.
func (r *Writer) Observe(ctx context.Context, e gabion.Event) {
	text, err := json.Marshal(lineOf(e))
	r.mu.Lock()
	if err == nil {
		err = r.write(e, append(text, '\n'))
	}
	first := false
	if err != nil {
		first = r.lost == 0
		r.err, r.lost, r.all = err, r.lost+1, r.all+1
	}
	r.mu.Unlock()
	if first {
		slog.ErrorContext(ctx, "gabion: events can't be recorded, they are lost until this is over", slog.Any("error", err))
	}
}

// write writes one line, and before it what is to be said of a gap.
func (r *Writer) write(e gabion.Event, text []byte) error {
	if r.lost > 0 {
		gap, err := json.Marshal(line{At: int64(e.At), Kind: policy.KindEventsLost.String(), Count: r.lost})
		if err != nil {
			return err
		}
		if gap = append(gap, '\n'); r.broken {
			gap = append([]byte("\n"), gap...)
		}
		text = append(gap, text...)
	}
	n, err := r.w.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err != nil {
		r.broken = r.broken || n > 0
		return err
	}
	r.lost, r.broken = 0, false
	return nil
}

// Err returns the last failure, or nil if there was none.
func (r *Writer) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Lost returns how many events could not be written.
func (r *Writer) Lost() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}
