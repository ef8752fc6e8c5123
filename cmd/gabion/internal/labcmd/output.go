package labcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gabion-go/gabion/lab"
)

// outputs are the files that a run writes; an empty name means no file.
type outputs struct{ page, markdown, junit string }

func (r *request) outputs() *outputs {
	o := &outputs{}
	r.c.Flags().StringVar(&o.page, "report", "", "")
	r.c.Flags().StringVar(&o.markdown, "markdown", "", "")
	r.c.Flags().StringVar(&o.junit, "junit", "", "")
	return o
}

// write writes them. It reports the page on stderr, since the user waits for it.
func (o *outputs) write(report *lab.Report, stderr io.Writer) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{o.markdown, report.Markdown}, {o.junit, report.JUnit}, {o.page, report.HTML}} {
		if f.name == "" {
			continue
		}
		if err := WriteFile(f.name, f.write); err != nil {
			return err
		}
		if f.name == o.page {
			fmt.Fprintf(stderr, "report written to %s\n", f.name)
		}
	}
	return nil
}

// WriteFile writes a file as a whole or not at all. What is no file, such as /dev/stdout,
// is written to.
func WriteFile(name string, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".gabion-*")
	if err != nil {
		return about(name, err)
	}
	defer os.Remove(f.Name()) // gone already when all went well
	if err := errors.Join(about(name, write(f)), about(name, f.Chmod(0o644)), about(name, f.Close())); err != nil {
		return err
	}
	return about(name, os.Rename(f.Name(), name))
}

// about makes an error that names a temporary file name the one that is meant.
func about(name string, err error) error {
	var path *os.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return &os.PathError{Op: path.Op, Path: name, Err: path.Err}
	case errors.As(err, &link):
		return &os.PathError{Op: "write", Path: name, Err: link.Err}
	}
	return err
}
