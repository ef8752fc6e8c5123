package boltstore

import (
	"path/filepath"
	"syscall"
)

// filesystems are those on which what is synced is still lost, or the lock is not
// kept, by the number that the kernel knows them by (statfs(2)).
var filesystems = map[uint32]string{
	0x01021994: "the file is on tmpfs, in memory: it is lost when the machine restarts; put it on a disk",
	0x858458f6: "the file is on ramfs, in memory: it is lost when the machine restarts; put it on a disk",
	0x794c7630: "the file is on overlayfs, in the container: it is lost with the container; put it on a volume",
	0x00006969: "the file is on NFS, where locks and memory maps may fail: put it on a local disk",
}

func warnings(file string) []string {
	var fs syscall.Statfs_t
	if syscall.Statfs(filepath.Dir(file), &fs) != nil {
		return nil
	}
	if text, known := filesystems[uint32(fs.Type)]; known {
		return []string{"boltstore: " + text}
	}
	return nil
}
