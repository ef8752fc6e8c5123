// Package record keeps gabion's events as JSON lines: one object per event, in the
// order in which they were observed. A recording can be read again, shown and compared.
//
// Its first line is a header, which says what program wrote it. Before the
// first event of a dependency a line says when the dependency's clock was at zero, and
// which policy was in force. A file that a second run appended to has a second
// header, and its calls are named by both numbers. Recordings without such lines,
// as earlier versions wrote them, are read as well.
package record

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// Writer is an Observer that writes every event as a line. Make one with
// [NewWriter]; it is safe for concurrent use and may serve several dependencies.
type Writer struct {
	options recording.Options

	mu     sync.Mutex // guards all below
	w      io.Writer
	headed bool                 // the header is written
	zeros  map[string]time.Time // what is written of each dependency's origin
	err    error                // of the last failure
	lost   int64                // since the last line that was written
	all    int64
	broken bool // the last failure left a part of a line behind
}

// Option says something of a recording that its Writer can't know.
type Option func(*options)

type options = recording.Options

// WithPolicies makes the recording name the policy of each dependency by its
// [PolicyHash], also after a reload. The function is called at the first event of a
// dependency and at each reload, outside every lock. Nil, and false from it, mean that a
// policy is not known.
func WithPolicies(of func(dependency string) (policy.Policy, bool)) Option {
	return func(o *options) { o.Policies = of }
}

// WithSettings makes the recording say the settings of each dependency and where they come from, so
// that a reader needs no file. The function is called when that of [WithPolicies] is. Nil from it means
// that they are not known.
func WithSettings(of func(dependency string) []policy.Setting) Option {
	return func(o *options) { o.Settings = of }
}

// WithPolicyFile writes into the recording which file the policies were read from.
func WithPolicyFile(path string) Option {
	return func(o *options) { o.Header.PolicyFile = path }
}

// NewWriter returns a Writer that writes to w, a line per Write; the first Write of each
// dependency has the lines before its first event, too. Give it a
// bufio.Writer to write in larger pieces, and flush that at the end; but such a one
// never writes again after a failure, and w itself may. A file has one Writer at a time:
// another one begins another run of it.
func NewWriter(w io.Writer, opts ...Option) *Writer {
	o := recording.Options{Header: recording.Header{Program: recording.ThisProgram()}}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	o.Header.Version = recording.Version
	return &Writer{w: w, options: o, zeros: map[string]time.Time{}}
}

// Observe implements gabion.Observer. An event that can't be written, as on a full
// disk, is lost and counted. The next ones are tried all the same, and the first line
// after a gap says how many are missing, as kind events_lost. The first failure of a
// gap is logged by slog.Default.
func (r *Writer) Observe(ctx context.Context, e policy.Event) {
	text, err := json.Marshal(recording.EventLine(e))
	origin := r.describe(e)
	r.mu.Lock()
	if err == nil {
		err = r.write(e, origin, append(text, '\n'))
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

// describe returns what is to be written of the event's dependency, or nil. It calls
// other people's code, so no lock is held.
func (r *Writer) describe(e policy.Event) *recording.Origin {
	if e.Dependency == "" {
		return nil // such as of events that were lost
	}
	o := &recording.Origin{Dependency: e.Dependency, Zero: r.options.Zero}
	if !r.options.Header.Virtual {
		o.Zero = time.Now().Add(-time.Duration(e.At)).Round(0).UTC()
	}
	r.mu.Lock()
	known := r.knows(e, o)
	r.mu.Unlock()
	if known {
		return nil
	}
	if r.options.Policies != nil {
		if p, ok := r.options.Policies(e.Dependency); ok {
			o.Policy = PolicyHash(p)
		}
	}
	if r.options.Settings != nil {
		for _, s := range r.options.Settings(e.Dependency) {
			s.Why = "" // of a default; it says nothing of the run
			o.Settings = append(o.Settings, s)
		}
	}
	return o
}

// clockDrift is how far the clock of a dependency may be from what its line says. It is
// more when the wall clock was set, when the machine slept, or when another dependency
// has taken the name.
const clockDrift = time.Second

// maxZeros bounds how many dependencies' origins a Writer remembers.
const maxZeros = 4096

// knows reports whether what was written of the event's dependency holds. An event about
// the dependency may come long after it happened, so it says nothing of the clock.
func (r *Writer) knows(e policy.Event, o *recording.Origin) bool {
	zero, written := r.zeros[o.Dependency]
	switch {
	case !written:
		return false
	case e.Kind == policy.KindReloaded && (r.options.Policies != nil || r.options.Settings != nil):
		o.Zero = zero
		return false
	}
	return e.Seq != 0 || o.Zero.Sub(zero).Abs() <= clockDrift
}

// write writes one line, and before it what is to be said of a gap, of the recording and
// of the dependency.
func (r *Writer) write(e policy.Event, origin *recording.Origin, text []byte) error {
	before, err := r.before(e, origin)
	if err != nil {
		return err
	}
	text = append(before, text...)
	n, err := r.w.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err != nil {
		r.broken = r.broken || n > 0
		return err
	}
	r.lost, r.broken, r.headed = 0, false, true
	if origin != nil {
		if len(r.zeros) == maxZeros { // names come from traffic: their origins are written again
			clear(r.zeros)
		}
		r.zeros[origin.Dependency] = origin.Zero
	}
	return nil
}

// before is what has to stand before an event's line.
func (r *Writer) before(e policy.Event, origin *recording.Origin) (text []byte, err error) {
	add := func(line any) {
		var one []byte
		if err == nil {
			one, err = json.Marshal(line)
			text = append(append(text, one...), '\n')
		}
	}
	if r.broken {
		text = append(text, '\n')
	}
	if r.lost > 0 {
		add(recording.LostLine(e.At, r.lost))
	}
	if !r.headed {
		h := r.options.Header
		if h.Time = r.options.Zero; !h.Virtual {
			h.Time = time.Now().Round(0).UTC()
		}
		add(recording.HeaderLine(h))
	}
	if origin != nil && !r.knows(e, origin) { // else another writer was first
		add(recording.OriginLine(*origin))
	}
	return text, err
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
