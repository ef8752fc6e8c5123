package powerfs

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func mount(t *testing.T, of Image) (*Disk, string) {
	t.Helper()
	dir := t.TempDir()
	d, err := Mount(dir, of)
	must(t, err)
	t.Cleanup(func() {
		if err := d.Unmount(); err != nil {
			t.Error(err)
			syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	return d, dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a file, which is closed before the disk goes.
func open(t *testing.T, name string, flag int) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, flag|os.O_RDWR, 0o600)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func names(i Image) []string { return slices.Sorted(maps.Keys(i)) }

func TestDiskKeepsWhatWasSynced(t *testing.T) {
	if !Isolated(t) {
		return
	}
	draw := rand.New(rand.NewPCG(1, 0))
	d, dir := mount(t, Image{"old": []byte("old"), "gone": []byte("gone")})
	if text, err := os.ReadFile(filepath.Join(dir, "old")); err != nil || string(text) != "old" {
		t.Fatalf("%q, %v", text, err)
	}
	must(t, os.Remove(filepath.Join(dir, "gone")))
	a := open(t, filepath.Join(dir, "a"), os.O_CREATE)
	b := open(t, filepath.Join(dir, "b"), os.O_CREATE)
	a.WriteString("synced")
	b.WriteString("not synced")
	must(t, a.Sync())
	if got := names(d.Cut(draw)); !slices.Contains(got, "a") || slices.Contains(got, "b") || !slices.Contains(got, "old") {
		t.Errorf("before the directory was synced: %v", got)
	}
	root, err := os.Open(dir)
	must(t, err)
	defer root.Close()
	must(t, root.Sync())
	left := d.Cut(draw)
	if got := names(left); !slices.Equal(got, []string{"a", "b", "old"}) || string(left["a"]) != "synced" {
		t.Errorf("after the directory was synced: %v, %q", got, left["a"])
	}
	must(t, a.Truncate(3))
	must(t, a.Sync())
	if got := d.Cut(draw)["a"]; string(got) != "syn" {
		t.Errorf("after the truncation: %q", got)
	}
}

func TestSyncCanFail(t *testing.T) {
	if !Isolated(t) {
		return
	}
	d, dir := mount(t, nil)
	f := open(t, filepath.Join(dir, "f"), os.O_CREATE)
	d.FailSync(2)
	f.WriteString("1")
	must(t, f.Sync())
	f.WriteString("2")
	if err := f.Sync(); err == nil || !d.Failed() {
		t.Fatalf("the second sync: %v, failed: %v", err, d.Failed())
	}
	f.WriteString("3")
	must(t, f.Sync())
	if got := d.Cut(rand.New(rand.NewPCG(1, 0)))["f"]; string(got) != "1\x003" {
		t.Errorf("%q is on the disk", got)
	}
}

// What is written through a shared mapping reaches the disk with a sync, and what
// is written otherwise is seen through it.
func TestMappings(t *testing.T) {
	if !Isolated(t) {
		return
	}
	d, dir := mount(t, Image{"m": make([]byte, 8192)})
	f := open(t, filepath.Join(dir, "m"), 0)
	// Populated, because a page fault in the process that serves it can be a deadlock:
	// the garbage collector would wait for the one, and the one for the server.
	m, err := syscall.Mmap(int(f.Fd()), 0, 8192, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	must(t, err)
	f.WriteAt([]byte("w"), 1)
	if m[1] != 'w' {
		t.Errorf("%q through the mapping", m[:2])
	}
	m[4096] = 'm'
	must(t, f.Sync())
	if got := d.Cut(rand.New(rand.NewPCG(1, 0)))["m"]; got[4096] != 'm' || got[1] != 'w' {
		t.Errorf("%q and %q on the disk", got[:2], got[4096])
	}
	must(t, syscall.Munmap(m))
}

func TestChildrenDoNotHoldTheDisk(t *testing.T) {
	if !Isolated(t) {
		return
	}
	mount(t, nil)
	out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "/dev/fuse") {
		t.Errorf("a child has what it must not:\n%s", out)
	}
}
