package sqlkit

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// fileMode is a new file's: answers and messages are in it. SQLite gives its -wal and -shm files the
// database's permissions.
const fileMode = 0o600

// CreateFile makes a missing file, empty and private: SQLite would make one that all users can read.
func CreateFile(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return err
	}
	return f.Close()
}

// FileName is the name of a file for the driver of SQLite, with options.
func FileName(file, options string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(file)}).EscapedPath() + "?" + options
}

// Resting are the options of SQLite for a file that [AtRest] tells of. The file must not be written
// while it is open: opening it to write makes the files that AtRest looks for.
const Resting = "mode=ro&immutable=1"

// AtRest reports whether SQLite failed because it could not write the file or its directory,
// where it keeps what the users of a file share, and whether all that was acknowledged is in
// the file itself, so that it can be read without.
func AtRest(file string, err error) bool {
	code, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	if !ok || code.Code()&0xff != 8 && code.Code()&0xff != 14 { // READONLY, CANTOPEN
		return false
	}
	wal, err := os.Stat(file + "-wal")
	return errors.Is(err, fs.ErrNotExist) || err == nil && wal.Size() == 0
}
