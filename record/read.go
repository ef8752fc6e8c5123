package record

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// maxLine bounds how long a line may be. An event's texts are short; more is not a
// recording.
const maxLine = 1 << 20

// Read returns the events of a recording, without the fields that mean nothing for
// their kind. The first line that is none ends it with
// an error that names the line, unless the next one says that events were lost there:
// a full disk may cut a line short.
func Read(r io.Reader) iter.Seq2[gabion.Event, error] {
	return func(yield func(gabion.Event, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		n := 0
		var bad error
		for lines.Scan() {
			n++
			e, err := parse(lines.Bytes())
			if bad != nil && (err != nil || e.Kind != policy.KindEventsLost) {
				break
			}
			if err != nil {
				bad = fmt.Errorf("line %d: %w", n, err)
				continue
			}
			if bad = nil; !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil && bad == nil {
			bad = fmt.Errorf("line %d: %w", n+1, err)
		}
		if bad != nil {
			yield(gabion.Event{}, bad)
		}
	}
}

func parse(text []byte) (gabion.Event, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return gabion.Event{}, err
	}
	return l.event()
}
