package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"path"
	"strings"
	"time"
)

// archiveName is the name of what a target's users download.
func archiveName(t target, version string) string {
	name := "gabion_" + strings.TrimPrefix(version, "v") + "_" + t.system + "_" + t.processor
	if t.system == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// archive packs files: a zip for Windows, a compressed tar for all others. The same files make the same bytes.
func archive(t target, files []entry, when time.Time) ([]byte, error) {
	if t.system == "windows" {
		return zipped(files, when)
	}
	return tarred(files, when)
}

func zipped(files []entry, when time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when.UTC()}
		header.SetMode(0o644)
		if f.mode&0o100 != 0 {
			header.SetMode(0o755)
		}
		body, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := body.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// tarred packs files, with the folders that they are in, for root.
func tarred(files []entry, when time.Time) ([]byte, error) {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	made := map[string]bool{".": true}
	for _, f := range files {
		if err := folders(w, path.Dir(f.name), made, when); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.data)), Mode: f.mode, ModTime: when, Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err = z.Close()
	return buf.Bytes(), err
}

func folders(w *tar.Writer, dir string, made map[string]bool, when time.Time) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := folders(w, path.Dir(dir), made, when); err != nil {
		return err
	}
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: when, Uname: "root", Gname: "root", Format: tar.FormatGNU})
}
