package record

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/gabion-go/gabion/policy"
)

// maxLine bounds how long a line may be. An event's texts are short; more is not a
// recording.
const maxLine = 1 << 20

// Read returns the lines of a recording. The first line that is none ends it with
// an error that names the line, unless the next one says that events were lost there:
// a full disk may cut a line short.
func Read(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		n := 0
		var bad error
		for lines.Scan() {
			n++
			l, err := parse(lines.Bytes())
			if bad != nil && (err != nil || l.Kind != policy.KindEventsLost.String()) {
				break
			}
			if err != nil {
				bad = fmt.Errorf("line %d: %w", n, err)
				continue
			}
			if bad = nil; !yield(l, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil && bad == nil {
			bad = fmt.Errorf("line %d: %w", n+1, err)
		}
		if bad != nil {
			yield(Line{}, bad)
		}
	}
}

func parse(text []byte) (l Line, err error) {
	if err := json.Unmarshal(text, &l); err != nil {
		return Line{}, err
	}
	if l.Kind == "" {
		return Line{}, fmt.Errorf("no kind: not an event")
	}
	return l, nil
}
