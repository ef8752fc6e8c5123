package gabionhttp

import (
	"bytes"
	"errors"
	"sync/atomic"
)

// errStreamSaid is the end of a stream of events that said that its server has failed.
var errStreamSaid = errors.New("gabionhttp: the stream ended with an event that says that the server failed or is overloaded")

// streamError finds the event with which a model provider ends a stream that it can't finish. The status was 200 long
// before, so nothing else tells: `event: error`, and data with the type of a server's failure, as of
// docs.anthropic.com/en/docs/build-with-claude/streaming and platform.openai.com/docs/api-reference/responses-streaming. It keeps no
// more than a line, and changes nothing.
type streamError struct {
	line  []byte
	event bool        // the event that is being read is an error
	found atomic.Bool // which is read while another goroutine reads the body
}

const mostLine = 1 << 10 // bytes of a line that are looked at

// serverFailed are the types of errors that are the server's and not of the request.
var serverFailed = [][]byte{[]byte(`"overloaded_error"`), []byte(`"api_error"`), []byte(`"timeout_error"`), []byte(`"server_error"`), []byte(`"server_is_overloaded"`)}

// see reads what came of the stream.
func (s *streamError) see(p []byte) {
	for !s.found.Load() {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.line = append(s.line, p[:min(len(p), mostLine-len(s.line))]...)
			return
		}
		s.line = append(s.line, p[:min(i, mostLine-len(s.line))]...)
		s.end(bytes.TrimSuffix(s.line, []byte("\r")))
		s.line, p = s.line[:0], p[i+1:]
	}
}

// end looks at a whole line.
func (s *streamError) end(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case len(line) == 0:
		s.event = false
	case string(field) == "event":
		s.event = string(value) == "error"
	case string(field) == "data" && s.event:
		for _, kind := range serverFailed {
			if bytes.Contains(value, kind) {
				s.found.Store(true)
			}
		}
	}
}
