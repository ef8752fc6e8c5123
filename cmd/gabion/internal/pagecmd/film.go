package pagecmd

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/recorded"
	kept "github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// film is one run of a recording, ready to be played.
type film struct {
	path        string
	run, runs   int
	first, last time.Time
	virtual     bool
	known       map[string][]policy.Setting
	broken      error // where the recording ends before its end
}

// noRun is the error of a run that a file does not have.
type noRun struct{ error }

// open reads a recording once. Run 0 is the last.
func open(path string, run int) (*film, error) {
	f := &film{path: path, run: run, known: map[string][]policy.Setting{}}
	events := 0
	for e, err := range entries(path) {
		if err != nil {
			f.broken = err
			break
		}
		if f.runs = e.Run; run != 0 && e.Run != run {
			continue
		}
		if f.run != e.Run { // a later run of those of which the last is wanted
			*f = film{path: path, run: e.Run, runs: e.Run, known: map[string][]policy.Setting{}}
			events = 0
		}
		f.take(&e, events == 0)
		events++
	}
	switch {
	case events > 0:
		return f, nil
	case f.runs > 0 && (f.broken == nil || errors.Is(f.broken, kept.ErrCut)):
		return nil, noRun{fmt.Errorf("%s has no run %d: it has %d", path, run, f.runs)}
	}
	return nil, recorded.Problem(path, f.broken, 0)
}

// take keeps what the page needs to know before it plays.
func (f *film) take(e *kept.Entry, first bool) {
	at := moment(e)
	if first {
		f.first, f.last = at, at
	}
	if at.After(f.last) {
		f.last = at
	}
	if e.Header != nil {
		f.virtual = e.Header.Virtual
	}
	if e.Origin == nil || len(e.Origin.Settings) == 0 {
		return
	}
	f.known[e.Event.Dependency] = e.Origin.Settings
}

// settings are those that the recording says were in force at last.
func (f *film) settings(dependency string) []policy.Setting { return f.known[dependency] }

// moment is when an event was. A recording without clocks begins in 1970.
func moment(e *kept.Entry) time.Time {
	if at := e.Time(e.Event.At); !at.IsZero() {
		return at
	}
	return time.Unix(0, int64(e.Event.At)).UTC()
}

// moment reads a flag that says when to begin. Times of day are of a zone.
func (f *film) moment(text string, here *time.Location) (time.Time, error) {
	if text == "" {
		return f.first, nil
	}
	after, err := time.ParseDuration(text)
	at := f.first.Add(after)
	if err != nil {
		at, err = time.Parse(time.RFC3339Nano, text)
	}
	if clock, wrong := time.Parse("15:04:05", text); wrong == nil {
		at, err = f.timeOfDay(clock, here), nil
	}
	switch {
	case err != nil:
		return at, fmt.Errorf("--from %s: write 90s, or a time such as %s or %s", text, f.first.In(here).Format(time.TimeOnly), f.first.Format(time.RFC3339))
	case !f.has(at):
		return at, fmt.Errorf("--from %s: the recording goes from %s to %s", text, f.first.Format(time.RFC3339), f.last.Format(time.RFC3339))
	}
	return at, nil
}

// has reports whether the recording was going on at a time, which may leave out parts of a
// second.
func (f *film) has(at time.Time) bool {
	return !at.Before(f.first.Add(-time.Second)) && !at.After(f.last)
}

// timeOfDay is the first moment of the recording with that time of day: here, as a browser
// shows it, or else in UTC, as gabion explain does.
func (f *film) timeOfDay(clock time.Time, here *time.Location) time.Time {
	for _, zone := range []*time.Location{here, time.UTC} {
		day := f.first.In(zone)
		for next := range 2 {
			at := time.Date(day.Year(), day.Month(), day.Day()+next, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), zone)
			if f.has(at) {
				return at
			}
		}
	}
	return time.Time{}
}

// events are those of the run, from the beginning. A failure ends them: what there was is
// played.
func (f *film) events() iter.Seq2[time.Time, gabion.Event] {
	return func(yield func(time.Time, gabion.Event) bool) {
		for e, err := range entries(f.path) {
			if err != nil || e.Run > f.run {
				return
			}
			if e.Run == f.run && !yield(moment(&e), e.Event) {
				return
			}
		}
	}
}

// entries reads a file.
func entries(path string) iter.Seq2[kept.Entry, error] {
	return func(yield func(kept.Entry, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(kept.Entry{}, err)
			return
		}
		defer file.Close()
		for e, err := range kept.Entries(file) {
			if !yield(e, err) {
				return
			}
		}
	}
}
