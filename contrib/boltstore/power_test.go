//go:build linux

package boltstore

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A call is what a child asked of the kernel, in the order in which it did.
type call struct {
	name  string
	data  []byte // that it wrote
	at    int64  // where to; of ftruncate, the size
	since int    // of a sync: what was asked before this call is on the disk
}

// G: in a power cut, what was not synced is lost, wholly or in part and in any order.
// The calls of a child are recorded, and disks that may be left are made of them.
func TestPowerCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("long: processes are killed")
	}
	t.Parallel()
	strace := straceOrSkip(t)
	file := newFile(t)
	trace := file + ".calls"
	run(t, file, "p", 6, 15, "env", childWatched+"=1", strace, "-f", "--seccomp-bpf", "-xx", "-s", "300000", "-o", trace,
		"-e", "trace=pwrite64,ftruncate,fdatasync,fsync,write", "-e", "inject=fdatasync:delay_enter=2000") // time to look at what is not synced
	calls := readCalls(t, trace)
	acknowledged := 0
	for n := range soak(100, 2000) {
		cut := rand.IntN(len(calls) + 1)
		w := said(calls[:cut])
		acknowledged += len(w.done)
		if len(w.granted) == 0 {
			continue // the file may not have been one yet
		}
		disk := fmt.Sprint(file, ".", n)
		if err := os.WriteFile(disk, diskAfter(calls[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		w.check(t, disk)
		if n%10 == 0 {
			sound(t, disk)
		}
		os.Remove(disk)
		if t.Failed() {
			t.Fatalf("power cut after call %d of %d", cut, len(calls))
		}
	}
	if acknowledged == 0 {
		t.Error("nothing was acknowledged")
	}
}

// A file that a failed process left may look better than the disk is: before anything
// else the pages from which all is found are written again, and synced.
func TestOpenSettlesTheFile(t *testing.T) {
	t.Parallel()
	strace := straceOrSkip(t)
	file := newFile(t)
	trace := file + ".calls"
	for n := range 2 {
		run(t, file, strconv.Itoa(n), 1, 1, strace, "-f", "--seccomp-bpf", "-xx", "-s", "300000", "-o", trace,
			"-e", "trace=pwrite64,fdatasync,fsync,write")
	}
	calls := readCalls(t, trace)
	if page := os.Getpagesize(); len(calls) < 2 || calls[0].at != 0 || len(calls[0].data) != 2*page || calls[1].name != "fsync" {
		t.Errorf("the file was not settled first, but %s of %d bytes at %d, then %s", calls[0].name, len(calls[0].data), calls[0].at, calls[1].name)
	}
	text, _ := os.ReadFile(trace)
	before, _, _ := bytes.Cut(text, []byte("write(1"))
	if n := bytes.Count(before, []byte(" fsync(")); n != 2 {
		t.Errorf("%d files were synced before the first answer, want the file and its folder", n)
	}
}

var callLine = regexp.MustCompile(`^(\d+) +(?:<\.\.\. )?(\w+)(?:\((\d+)| resumed>)(?:, "([^"]*)")?(?:, (\d+))?(?:, (\d+))?`)

// readCalls reads the calls on the file, and what was written to standard output.
func readCalls(t *testing.T, trace string) (calls []call) {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	file := ""                   // its descriptor
	pending := map[string]call{} // syncs that have not returned, by thread
	for line := range strings.Lines(string(text)) {
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		thread, fd := m[1], m[3]
		c := call{name: m[2], data: unhex(m[4]), since: len(calls)}
		switch resumed := fd == ""; {
		case c.name == "pwrite64" && !resumed:
			file = fd
			c.at, _ = strconv.ParseInt(m[6], 10, 64)
		case c.name == "ftruncate" && fd == file:
			c.at, _ = strconv.ParseInt(m[5], 10, 64)
		case strings.HasSuffix(c.name, "sync") && (fd == file || resumed):
			if resumed {
				c = pending[thread]
			}
			if strings.Contains(line, "<unfinished") {
				pending[thread] = c
				continue
			}
		case c.name == "write" && fd == "1":
		default:
			continue
		}
		calls = append(calls, c)
	}
	return calls
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
	if err != nil {
		panic(err)
	}
	return b
}

// said returns what the child had been told.
func said(calls []call) *witness {
	var out bytes.Buffer
	for _, c := range calls {
		if c.name == "write" {
			out.Write(c.data)
		}
	}
	w := &witness{}
	w.read(&out)
	return w
}

// diskAfter returns one of the disks that may be left: with all that was synced, and
// of the rest some sectors.
func diskAfter(calls []call) (disk []byte) {
	synced := 0
	for _, c := range calls {
		if strings.HasSuffix(c.name, "sync") {
			synced = c.since
		}
	}
	mood := rand.IntN(4) // the likeliest disks lack almost everything, or almost nothing
	for i, c := range calls {
		if end := int(c.at) + len(c.data); c.name == "ftruncate" || c.name == "pwrite64" {
			disk = append(disk, make([]byte, max(0, end-len(disk)))...)
		}
		const sector = 512
		for n := 0; n < len(c.data) && c.name == "pwrite64"; n += sector {
			if i < synced || rand.IntN(4) < mood {
				copy(disk[int(c.at)+n:], c.data[n:min(n+sector, len(c.data))])
			}
		}
	}
	return disk
}
