// Package wholefile replaces files as a whole: a reader sees all of the old text or all of the new
// one.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Beside writes a text into a new file in the folder of target, which os.Rename then puts
// in its place. It returns the new file's name. On an error it leaves no file.
func Beside(target string, text []byte, mode fs.FileMode) (name string, err error) {
	file, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Chmod(mode.Perm()), file.Sync(), file.Close()); err != nil {
		_ = os.Remove(file.Name()) // the error before says more
		return "", err
	}
	return file.Name(), nil
}

// Replace writes a text into the file at path, or makes it with the mode. A link stays one,
// and a file that is there keeps its mode.
func Replace(path string, text []byte, mode fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode()
	}
	name, err := Beside(path, text, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(name, path); err != nil {
		_ = os.Remove(name) // the error before says more
		return err
	}
	return nil
}
