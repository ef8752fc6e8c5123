package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Watching is how [Watch] looks after a file. The zero Watching lacks Apply.
type Watching struct {
	// Apply puts a new version of the file into force, as Registry.Reload does. It must not
	// be nil. After an error the version before stays, and Apply is not called again before
	// the file changes or Now says so.
	Apply func(*File) error

	// Failed is called with the reason why a new version is not in force: [Findings] where it has
	// mistakes, the error of reading the file, or Apply's. It is called once for each version, and not
	// at each look. Nil means no call.
	Failed func(error)

	// Interval is the time from one look at the file to the next. Zero means 5 s; -1 means
	// that only Now brings a look; any other value below 10 ms is an error.
	Interval time.Duration

	// Now brings a look at once, for signals: signal.Notify(now, syscall.SIGHUP). The version
	// that is found then is applied without a second look, also if it is the one in force.
	// Nil brings none.
	Now <-chan os.Signal

	// Options are those with which the file is read.
	Options []Option
}

const (
	defaultInterval = 5 * time.Second
	leastInterval   = 10 * time.Millisecond

	// settles is how long a new version must stay as it is: a file that is written in place
	// is half there for a moment, and half of a file may be one without mistakes.
	settles = 200 * time.Millisecond
)

var errNotLoaded = errors.New("config: the file to watch was not read by Load")

// Watch calls Apply for each new version of a file without mistakes until ctx ends, and then
// returns nil. The file is the one in force, from [Load], so that no change between the two is
// missed. A version with mistakes, or no file at all, changes nothing: the last good version
// stays in force. Any other error is a mistake in w.
//
// It reads the file at each look, by its name: whether that was written in place, replaced by
// a rename, or is a link that leads elsewhere by now, as in a mounted ConfigMap, makes no
// difference. A new version is applied when two looks 200 ms apart found the same (or an
// Interval, if that is shorter).
//
// Apply and Failed run on Watch's goroutine, one at a time.
func Watch(ctx context.Context, file *File, w Watching) error {
	l := lookout{Watching: w}
	if err := l.begin(file); err != nil {
		return err
	}
	var timer *time.Timer
	var due <-chan time.Time
	if l.Interval > 0 {
		timer = time.NewTimer(l.Interval)
		defer timer.Stop()
		due = timer.C
	}
	for {
		again := l.Interval
		select {
		case <-ctx.Done():
			return nil
		case <-due:
			again = l.look()
		case _, open := <-l.Now:
			if !open {
				l.Now = nil
				continue
			}
			l.lookNow()
		}
		if timer != nil {
			timer.Reset(again)
		}
	}
}

// lookout is what a Watch knows.
type lookout struct {
	Watching
	path    string
	inForce string  // the text that Apply took last
	tried   version // that Apply got last, or that could not be used
	seen    version // at the last look
}

// version is what a look found: a text, or the error of reading it.
type version struct{ text, problem string }

func (l *lookout) begin(file *File) error {
	switch {
	case file == nil || file.text == "":
		return errNotLoaded
	case l.Apply == nil:
		return errors.New("config: Watching.Apply is nil: no version would be put into force")
	case l.Interval == 0:
		l.Interval = defaultInterval
	case l.Interval < leastInterval && l.Interval != -1:
		return fmt.Errorf("config: Watching.Interval is %v: zero means %v, -1 that only Now counts, and the least is %v", l.Interval, defaultInterval, leastInterval)
	}
	l.path, l.inForce = file.Name, file.text
	l.tried, l.seen = version{text: file.text}, version{text: file.text}
	return nil
}

// look applies a version that the look before has found, too, and says when to look again.
func (l *lookout) look() time.Duration {
	v, err := l.read()
	switch before := l.seen; {
	case v == l.tried:
		l.seen = v
	case v != before:
		l.seen = v
		return min(settles, l.Interval)
	case v.text == l.inForce && err == nil: // a version with mistakes was taken back
		l.tried = v
	default:
		l.try(v, err)
	}
	return l.Interval
}

func (l *lookout) lookNow() {
	v, err := l.read()
	l.seen = v
	l.try(v, err)
}

func (l *lookout) read() (version, error) {
	data, err := read(l.path)
	if err != nil {
		return version{problem: err.Error()}, err
	}
	return version{text: string(data)}, nil
}

func (l *lookout) try(v version, err error) {
	l.tried = v
	var file *File
	if err == nil {
		file, err = Parse(l.path, []byte(v.text), l.Options...)
	}
	if err == nil {
		err = l.Apply(file)
	}
	switch {
	case err == nil:
		l.inForce = v.text
	case l.Failed != nil:
		l.Failed(err)
	}
}
