package labcmd

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/lab"
)

// recording is what a run records, and where to. Without a path it records nothing.
type recording struct {
	path, of string
	asked    lab.Recording
	files    []string // one for each side that is recorded
	texts    []*bytes.Buffer
}

func (r *request) recording() *recording {
	rec := &recording{}
	r.c.Flags().StringVar(&rec.path, "record", "", "")
	r.c.Flags().StringVar(&rec.of, "record-of", "", "")
	return rec
}

// ready reads the flags and adds what is recorded to what is asked of the lab. It returns
// what is wrong with them, or "".
func (rec *recording) ready(o *lab.Options, swept bool) string {
	switch {
	case rec.path == "" && rec.of == "":
		return ""
	case rec.path == "":
		return "--record-of says whose decisions are recorded, and --record FILE is missing"
	case swept:
		return "a sweep runs many policies: record one of them, without --sweep"
	}
	name, number, numbered := strings.Cut(rec.of, "/")
	rec.asked.Of = name
	if numbered {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return fmt.Sprintf("--record-of %s: write NAME or NAME/N, where N is 0 or more", rec.of)
		}
		rec.asked.Client = n
	}
	rec.asked.Open = rec.open
	o.Record = &rec.asked
	return ""
}

// open makes room for the recording of a side. The files are written at the end, each as a
// whole.
func (rec *recording) open(side int, name string) (io.Writer, error) {
	path := rec.path
	switch folder := rec.folder(); {
	case folder:
		path = filepath.Join(rec.path, fileName(side, name))
	case side > 0:
		return nil, nil
	}
	rec.files, rec.texts = append(rec.files, path), append(rec.texts, new(bytes.Buffer))
	return rec.texts[len(rec.texts)-1], nil
}

// folder reports whether each side has a file of its own.
func (rec *recording) folder() bool {
	if strings.HasSuffix(rec.path, "/") || strings.HasSuffix(rec.path, string(filepath.Separator)) {
		return true
	}
	info, err := os.Stat(rec.path)
	return err == nil && info.IsDir()
}

// fileName is the file of a side: two sides may have names that are the same but for what
// no file is called by.
func fileName(side int, name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r) {
			return r
		}
		return '-'
	}, filepath.Base(name))
	return fmt.Sprintf("%d-%s.jsonl", side, name)
}

// write writes the files, and says what they have.
func (rec *recording) write(report *lab.Report, stderr io.Writer) error {
	for i, made := range report.Recorded() {
		if rec.folder() {
			if err := os.MkdirAll(rec.path, 0o755); err != nil {
				return err
			}
		}
		if err := WriteFile(rec.files[i], func(w io.Writer) error { _, err := rec.texts[i].WriteTo(w); return err }); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "%s: %d events of %s %d, side %s", rec.files[i], made.Events, made.Of, made.Client, made.Side)
		fmt.Fprintln(stderr, cmp.Or(left(made.Left), ", in the first run"))
	}
	return nil
}

func left(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", from the beginning of the first run; %d more are left out", n)
}
