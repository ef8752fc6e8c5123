package testservers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// installed puts a data directory into s.dir. Making one takes a database server's own
// program a second or two, so the first one made in a day is kept in the user's cache, and
// the next servers, also those of other packages' tests, start with copies of it.
// Another program, or other options of it, ask for another template.
func (s *Server) installed(install func() ([]byte, error), program string, options ...string) (out []byte, err error) {
	template := templateName(s.kind.name, program, options, time.Now())
	if template != "" && s.owned(copyTree(s.data(), template)) == nil {
		return nil, nil
	}
	os.RemoveAll(s.data()) // what was copied of a template that is being removed
	if out, err = install(); err != nil || template == "" {
		return out, err
	}
	s.keep(template)
	return out, nil
}

// templateName is the directory of a template, or empty where the user has no cache. The day
// is part of the name, so that a template that a crash of the machine spoiled is not used forever.
func templateName(kind, program string, options []string, now time.Time) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	info, err := os.Stat(program)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %v %q", program, info.Size(), info.ModTime(), options))
	return filepath.Join(cache, "gabion-testservers", kind+"-"+now.Format("20060102")+"-"+hex.EncodeToString(sum[:8]))
}

// keep makes the template of the data directory, which no server has used yet. A process that looks for
// it finds all of it or nothing. A failure here costs only time.
func (s *Server) keep(template string) {
	parent := filepath.Dir(template)
	if os.MkdirAll(parent, 0o755) != nil {
		return
	}
	old, _ := filepath.Glob(filepath.Join(parent, s.kind.name+"-*"))
	partial, err := os.MkdirTemp(parent, "making-")
	if err != nil {
		return
	}
	defer os.RemoveAll(partial)
	whole := filepath.Join(partial, "data")
	if copyTree(whole, s.data()) != nil || os.Rename(whole, template) != nil {
		return
	}
	for _, dir := range old {
		if day(dir) != day(template) {
			os.RemoveAll(dir)
		}
	}
}

// day returns a template's day.
func day(template string) string {
	_, rest, _ := strings.Cut(filepath.Base(template), "-")
	day, _, _ := strings.Cut(rest, "-")
	return day
}

// owned gives the data directory to the server's user, unless err has happened before.
func (s *Server) owned(err error) error {
	if err != nil || s.owner == nil {
		return err
	}
	return filepath.WalkDir(s.data(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, s.owner.uid, s.owner.gid)
	})
}

// copyTree copies the directories and files below from to the new directory to.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, path[len(from):])
		switch {
		case entry.IsDir():
			return os.Mkdir(target, info.Mode().Perm())
		case info.Mode().IsRegular():
			return copyFile(target, path, info)
		}
		return fmt.Errorf("%s is neither a file nor a directory", path)
	})
}

// copyFile leaves blocks of zeros unwritten: a new log of MariaDB's is a hundred megabytes of them.
func copyFile(to, from string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer out.Close()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := io.ReadFull(in, block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return out.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}
