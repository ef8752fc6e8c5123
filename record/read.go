package record

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// maxLine bounds how long a line may be. An event's texts are short; more is not a
// recording.
const maxLine = 1 << 20

// Read returns the lines of a recording. The first line that is none ends it with
// an error that names the line.
func Read(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		n := 0
		for lines.Scan() {
			n++
			l, err := parse(lines.Bytes())
			if err != nil {
				yield(Line{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(l, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Line{}, fmt.Errorf("line %d: %w", n+1, err))
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
