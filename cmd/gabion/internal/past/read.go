package past

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/recorded"
	"github.com/gabion-go/gabion/internal/suggest"
)

// Options say what is read. The zero Options read all there is.
type Options struct {
	Name       string // of the file, for messages
	Dependency string // empty means the only one
	From       string // a duration since the beginning, or a time of RFC 3339; empty means the beginning
	For        time.Duration
	Naming     Naming // of series of others
}

// Read reads a file.
func Read(name string, o Options) (*Past, error) {
	f, err := recorded.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o.Name = name
	return ReadFrom(f, o)
}

const forms = "a recording of gabion's, spans in OTLP JSON (resourceSpans, one object a line), or what Prometheus answers to /api/v1/query_range"

// ReadFrom reads a source and finds out what it is.
func ReadFrom(in io.Reader, o Options) (*Past, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	head, err := buffered.Peek(4 << 10)
	if err != nil && len(head) == 0 {
		return nil, fmt.Errorf("%s is empty: name %s", o.Name, forms)
	}
	var p *Past
	switch {
	case bytes.Contains(head, []byte(`"resourceSpans"`)):
		p, err = readSpans(buffered, o)
	case bytes.Contains(head, []byte(`"resultType"`)), bytes.Contains(head, []byte(`"status":"error"`)):
		p, err = readRange(buffered, o)
	case bytes.Contains(head, []byte(`"kind"`)):
		p, err = readRecording(buffered, o)
	default:
		return nil, fmt.Errorf("%s:1: it can't be replayed: name %s", o.Name, forms)
	}
	if err != nil {
		return nil, err
	}
	p.Source = o.Name
	return p, nil
}

// choose is the dependency that is meant.
func (o *Options) choose(names []string) (string, error) {
	switch {
	case o.Dependency != "":
		for _, name := range names {
			if name == o.Dependency {
				return name, nil
			}
		}
		return "", fmt.Errorf("%s says nothing of %q: %s", o.Name, o.Dependency, suggest.For(o.Dependency, names, "it has "+some(names)))
	case len(names) == 0:
		return "", fmt.Errorf("%s says nothing of any dependency", o.Name)
	case len(names) > 1:
		return "", fmt.Errorf("%s is about several dependencies: choose one with --dependency: %s", o.Name, some(names))
	}
	return names[0], nil
}

func some(names []string) string {
	if len(names) > 20 {
		return strings.Join(names[:20], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func (o *Options) none(name string) error {
	part := ""
	if o.From != "" || o.For > 0 {
		part = " in that part of the time: look at --from and --for"
	}
	return fmt.Errorf("%s has no call of %s that ended%s", o.Name, name, part)
}

// window reads which part is meant, of a source that begins at an instant.
func (t *tape) window(o Options, begin int64) error {
	from, err := o.from(begin)
	if err != nil {
		return err
	}
	if t.from = from; o.For > 0 {
		t.to = max(from, begin) + int64(o.For)
	}
	return nil
}

// from is where the part begins, in nanoseconds since 1970.
func (o *Options) from(begin int64) (int64, error) {
	if o.From == "" {
		return begin - int64(hang), nil // calls began before the first event
	}
	if d, err := time.ParseDuration(o.From); err == nil && d >= 0 {
		return begin + int64(d), nil
	}
	at, err := time.Parse(time.RFC3339Nano, o.From)
	if err != nil {
		return 0, fmt.Errorf("--from %s: write a duration since the beginning, such as 10m, or a time such as 2026-11-21T10:00:00Z", o.From)
	}
	return at.UnixNano(), nil
}
