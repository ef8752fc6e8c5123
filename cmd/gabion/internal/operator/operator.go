// Package operator is what the commands share that look into a service's store: gabion idempotency,
// gabion deadletter and gabion outbox.
package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"
)

// A Wrong is a usage error.
type Wrong struct{ error }

// Wrongf returns a Wrong with that text.
func Wrongf(text string, args ...any) error { return Wrong{fmt.Errorf(text, args...)} }

// Call returns a Wrong of an error, and nil of nil.
func Call(err error) error {
	if err == nil {
		return nil
	}
	return Wrong{err}
}

// Unwrap returns the error itself.
func (w Wrong) Unwrap() error { return w.error }

// Regular returns an error unless there is a file of that name that is no directory or device.
func Regular(file string) error {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", file)
	}
	return err
}

// URL returns an error unless a --store is a URL. The error does not have it, since there may be
// a password in it.
func URL(store string) error {
	if _, err := url.Parse(store); err != nil {
		return Wrongf("--store is no URL")
	}
	return nil
}

// SQLite is the name of a file for the driver of SQLite, with parameters.
func SQLite(file, parameters string) string {
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + parameters
}

// Span is a duration in one unit, of which there are at least two.
func Span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", max(0, d)/time.Second)
}

// PrintJSON prints a value on many lines, with the characters of HTML as they are.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
