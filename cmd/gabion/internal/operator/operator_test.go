package operator

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSpanIsInOneUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h",
		47*time.Hour + 59*time.Minute: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestRegular(t *testing.T) {
	dir := t.TempDir()
	if err := Regular(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := Regular(dir); err == nil || !strings.HasSuffix(err.Error(), " is no file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestErrorsOfTheCallerKeepPasswordsToThemselves(t *testing.T) {
	err := URL("postgres://ann:secret@[")
	if _, ok := errors.AsType[Wrong](err); !ok || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if URL("postgres://ann:secret@db/letters") != nil || Call(nil) != nil {
		t.Error("there is an error where all is well")
	}
	if err := Call(fs.ErrExist); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
}

func TestNamesOfFilesAreEscaped(t *testing.T) {
	if got := SQLite("a b?.db", "mode=rw"); got != "file:a%20b%3F.db?mode=rw" {
		t.Error(got)
	}
}

func TestJSONHasWhatItIsGiven(t *testing.T) {
	var b strings.Builder
	if err := PrintJSON(&b, map[string]string{"a": "<&>"}); err != nil || b.String() != "{\n  \"a\": \"<&>\"\n}\n" {
		t.Error(b.String(), err)
	}
}
