//go:build !linux

package boltstore

import "os"

// datasync is what bbolt syncs with.
func datasync(f *os.File) error { return f.Sync() }
