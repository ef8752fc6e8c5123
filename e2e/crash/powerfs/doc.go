// Package powerfs is a disk that loses its power: a file system in memory, mounted
// through FUSE, that knows which writes were synced.
//
// A power cut leaves what was synced and, of the rest, any part: each sector of each
// write that was not synced is there or is not, as a draw decides. A file that was
// made is there if it or its directory was synced since. A file that was removed is
// gone if the directory was synced since, otherwise a draw decides. A sync can be
// made to fail, and then, as under Linux, what it was to write is not written by a
// later one either, though readers see it until the cut.
//
// It has one directory and what databases need of a file system: no directories
// below, links or renaming.
package powerfs
