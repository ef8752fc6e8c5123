package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// What a reader keeps is bounded, whatever it reads.
const (
	maxLine    = 1 << 20 // an event's texts are short; more is not a recording
	maxOrigins = 1 << 16 // of a run; a configuration has fewer dependencies
)

// ErrCut is the error, at the end, of a recording that ends in the middle of a line, as
// that of a program that was killed, or that has a run which does. All that is whole was
// read before.
var ErrCut = errors.New("the recording was cut off here")

// ErrLater is the error of a line that a later version of gabion wrote, as far as this one
// can tell: the version of the format is above [Version], or a word is not known.
var ErrLater = errors.New("a later version of gabion may have written it")

// Entry is one event of a recording, and where it stands.
type Entry struct {
	Event  policy.Event
	Line   int     // from 1
	Run    int     // which of the runs in the file, from 1
	Header *Header // of the run; nil if it has none
	Origin *Origin // of the event's dependency; nil if the recording does not say
}

// ID names the call that the event is about; its Call is 0 if it is about none.
func (e *Entry) ID() ID { return ID{e.Run, e.Event.Call} }

// Time returns the wall clock at an instant of the event's dependency, and the zero Time
// where that is not known.
func (e *Entry) Time(at policy.Instant) time.Time {
	if e.Origin == nil || e.Origin.Zero.IsZero() {
		return time.Time{}
	}
	return e.Origin.Zero.Add(time.Duration(at))
}

// Entries returns the events of a recording, without the fields that mean nothing for their kind, and what the recording
// says around them. The first invalid line ends it with an error that names the line, unless the next one says that events
// were lost there: a full disk may cut a line short. [ErrCut] marks a recording that was cut off.
func Entries(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s := newScan(r)
		for s.next() {
			if !yield(s.entry, nil) {
				return
			}
		}
		if s.err != nil {
			yield(Entry{}, s.err)
		}
	}
}

// scan reads a recording line by line.
type scan struct {
	lines   *bufio.Scanner
	n       int                // the line that was read last
	entry   Entry              // its event
	begun   bool               // something of the run was read, but that its beginning is lost
	origins map[string]*Origin // of the run
	bad     error              // why the line before is invalid; only some lines may follow it
	badAt   int                // its number
	torn    bool               // it is the beginning of one
	cut     error              // a run was cut off
	err     error              // how it ended
}

func newScan(r io.Reader) *scan {
	s := &scan{lines: bufio.NewScanner(r), entry: Entry{Run: 1}, origins: map[string]*Origin{}}
	s.lines.Buffer(nil, maxLine)
	s.lines.Split(wholeLines)
	return s
}

// wholeLines is bufio.ScanLines, but keeps the ends of lines: a last one without it may
// have been cut off.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// next reads up to the next event.
func (s *scan) next() bool {
	for s.err == nil && s.lines.Scan() {
		s.n++
		if s.take(s.lines.Bytes()) {
			return true
		}
	}
	if s.err == nil {
		s.err = s.end()
	}
	return false
}

// end says how a recording ended whose last line was read.
func (s *scan) end() error {
	err := s.lines.Err()
	switch {
	case s.bad != nil:
		return s.bad
	case errors.Is(err, io.ErrUnexpectedEOF): // a compressed one was cut off
		return fmt.Errorf("line %d: %w: %w", s.n+1, ErrCut, err)
	case err != nil:
		return fmt.Errorf("line %d: %w", s.n+1, err)
	}
	return s.cut
}

// take reads one line, and reports whether it is an event.
func (s *scan) take(text []byte) bool {
	text, ended := bytes.CutSuffix(text, []byte("\n"))
	var l anyLine
	err := l.parse(text)
	if at := bytes.LastIndex(text, headerBegins); err != nil && s.bad == nil && at > 0 && l.parse(text[at:]) == nil {
		s.bad, s.badAt, s.torn, err = cutOff(s.n), s.n, true, nil // another run was appended to it
	}
	switch {
	case err != nil && s.bad != nil, err == nil && !s.excuses(&l):
		s.err = s.bad
	case err != nil && !ended && unfinished(text):
		s.err = cutOff(s.n)
	case err != nil:
		s.bad, s.badAt, s.torn = fmt.Errorf("line %d: %w", s.n, err), s.n, unfinished(text)
	default:
		return s.put(&l)
	}
	return false
}

// excuses reports whether a line explains an invalid line before it: events were lost there, or another
// run begins after one that was cut off.
func (s *scan) excuses(l *anyLine) bool {
	return s.bad == nil || l.event.Kind == policy.KindEventsLost || l.header != nil && s.torn
}

// put takes what a line says, and reports whether that is an event.
func (s *scan) put(l *anyLine) bool {
	if s.bad != nil && l.header != nil && s.cut == nil {
		s.cut = cutOff(s.badAt)
	}
	s.bad = nil
	switch {
	case l.header != nil:
		if s.begun {
			s.entry.Run++
			clear(s.origins)
		}
		s.entry.Header = l.header
	case l.origin != nil:
		if s.origins[l.origin.Dependency] = l.origin; len(s.origins) > maxOrigins {
			s.err = fmt.Errorf("line %d: more than %d dependencies", s.n, maxOrigins)
		}
	default:
		s.entry.Event, s.entry.Line, s.entry.Origin = l.event, s.n, s.origins[l.event.Dependency]
	}
	s.begun = s.begun || l.event.Kind != policy.KindEventsLost
	return l.header == nil && l.origin == nil
}

func cutOff(line int) error { return fmt.Errorf("line %d: %w", line, ErrCut) }

// unfinished reports whether text is the beginning of a line. A machine that lost its
// power may leave zeros at the end.
func unfinished(text []byte) bool {
	zeros := len(text)
	text = bytes.TrimRight(text, "\x00")
	if len(text) == 0 {
		return zeros > 0
	}
	var syntax *json.SyntaxError
	err := json.Unmarshal(text, new(json.RawMessage))
	return errors.As(err, &syntax) && strings.HasPrefix(syntax.Error(), "unexpected end") && text[0] == '{'
}

var headerBegins = []byte(`{"kind":"` + kindHeader + `",`)

// anyLine is what a line of a recording may be: one of the three.
type anyLine struct {
	header *Header
	origin *Origin
	event  policy.Event
}

// parse reads a line. On an error l stays as it was.
func (l *anyLine) parse(text []byte) error {
	var read line
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	switch read.Kind {
	case kindHeader:
		var h headerLine
		if err := json.Unmarshal(text, &h); err != nil {
			return err
		}
		if h.Version > Version {
			return fmt.Errorf("version %d of the format is not known, only those to %d: %w", h.Version, Version, ErrLater)
		}
		l.header = &h.Header
	case kindOrigin:
		var o originLine
		if err := json.Unmarshal(text, &o); err != nil {
			return err
		}
		l.origin = &o.Origin
	default:
		e, err := read.event()
		if err != nil {
			return err
		}
		l.event = e
	}
	return nil
}
