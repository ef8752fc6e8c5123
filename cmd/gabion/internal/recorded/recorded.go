// Package recorded says what is wrong with a recording, alike in each command.
package recorded

import (
	"errors"
	"fmt"
	"os"

	"github.com/gabion-go/gabion/internal/recording"
)

// Open opens a recording. It refuses a folder.
func Open(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%s is a directory: name a recording in it", name)
	}
	return f, nil
}

// Problem is what is wrong with a recording whose reading ended with an error, or with nil
// at its end, after a number of events. It is nil if nothing is. A recording that was cut
// off after an event has no problem.
func Problem(name string, ended error, events int) error {
	var path *os.PathError
	before := ""
	if events > 0 {
		before = "; what stands before it was read"
	}
	switch {
	case errors.Is(ended, recording.ErrCut) && events == 0:
		return fmt.Errorf("%s: %w, before its first event", name, ended)
	case ended == nil && events == 0:
		return fmt.Errorf("%s is empty: it has no events. Is the writer attached (gabion.WithObserver, or Observe of a registry), and was a call made since?", name)
	case ended == nil, errors.Is(ended, recording.ErrCut):
		return nil
	case errors.As(ended, &path):
		return ended
	case errors.Is(ended, recording.ErrLater):
		return fmt.Errorf("%s: %w: a newer gabion command reads it%s", name, ended, before)
	case events == 0:
		return fmt.Errorf("%s: %w: is it a recording of gabion's?", name, ended)
	}
	return fmt.Errorf("%s: %w%s", name, ended, before)
}
