//go:build !linux

package stores

import "os"

func syncData(f *os.File) error { return f.Sync() }
