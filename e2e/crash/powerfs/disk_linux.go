package powerfs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A Disk is a mounted Image. Its methods are safe for concurrent use.
type Disk struct {
	dir    string
	server *fuse.Server
	root   *directory
	syncs  atomic.Int64 // since it was mounted
	bad    atomic.Int64 // the sync that fails, counted like syncs; zero means no failure
}

// Mount mounts a copy of the image over the directory. It takes the right to mount,
// and /dev/fuse.
func Mount(dir string, of Image) (*Disk, error) {
	d := &Disk{dir: dir}
	d.root = &directory{disk: d, files: map[string]*file{}, durable: map[string]*file{}}
	for name, bytes := range of {
		f := &file{in: d.root}
		f.content.live, f.content.durable = append([]byte(nil), bytes...), append([]byte(nil), bytes...)
		d.root.files[name], d.root.durable[name] = f, f
	}
	var err error
	if d.server, err = d.mount(); err != nil {
		return nil, fmt.Errorf("powerfs: mount: %w", err)
	}
	return d, nil
}

// mount keeps the connection with the kernel from being inherited, which go-fuse
// does not: a child that held it would wait for ever, beyond the reach of SIGKILL,
// for answers of a parent that is dead.
func (d *Disk) mount() (*fuse.Server, error) {
	syscall.ForkLock.RLock() // no child begins in between
	defer syscall.ForkLock.RUnlock()
	server, err := fs.Mount(d.dir, d.root, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "powerfs", Name: "powerfs", DisableXAttrs: true,
		ExplicitDataCacheControl: true, // only the databases change the files, so what is mapped stays mapped
	}})
	if err != nil {
		return nil, err
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		server.Unmount()
		return nil, err
	}
	for _, f := range open {
		target, _ := os.Readlink("/proc/self/fd/" + f.Name()) // gone: the directory itself
		if n, err := strconv.Atoi(f.Name()); err == nil && target == "/dev/fuse" {
			syscall.CloseOnExec(n)
		}
	}
	return server, nil
}

// Syncs returns how many syncs there were.
func (d *Disk) Syncs() int { return int(d.syncs.Load()) }

// FailSync makes the nth sync from now on fail with EIO.
func (d *Disk) FailSync(n int) { d.bad.Store(d.syncs.Load() + int64(n)) }

// Failed reports whether the sync that was to fail did.
func (d *Disk) Failed() bool {
	bad := d.bad.Load()
	return bad > 0 && d.syncs.Load() >= bad
}

// Cut returns what a power cut at this moment leaves. Kill the processes that have files open first.
func (d *Disk) Cut(draw *rand.Rand) Image {
	d.root.mu.Lock()
	defer d.root.mu.Unlock()
	left := Image{}
	for name, f := range d.root.durable {
		if d.root.files[name] == nil && draw.IntN(2) == 0 {
			continue // it was removed
		}
		left[name] = f.content.after(draw)
	}
	return left
}

// Unmount ends it. It fails while files are open.
func (d *Disk) Unmount() error { return d.server.Unmount() }

// A directory is the root. One lock for all files is enough for a test.
type directory struct {
	fs.Inode
	disk *Disk

	mu      sync.Mutex // guards all below and all contents
	files   map[string]*file
	durable map[string]*file // whose names are on the disk
}

var (
	_ fs.NodeOnAdder   = (*directory)(nil)
	_ fs.NodeCreater   = (*directory)(nil)
	_ fs.NodeUnlinker  = (*directory)(nil)
	_ fs.NodeFsyncer   = (*directory)(nil)
	_ fs.NodeGetattrer = (*directory)(nil)
)

const regular = syscall.S_IFREG | 0o600

// OnAdd implements fs.NodeOnAdder.
func (d *directory) OnAdd(ctx context.Context) {
	for name, f := range d.files {
		d.AddChild(name, d.NewPersistentInode(ctx, f, fs.StableAttr{Mode: regular}), true)
	}
}

// Getattr implements fs.NodeGetattrer.
func (d *directory) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = syscall.S_IFDIR | 0o700
	return 0
}

// Create implements fs.NodeCreater.
func (d *directory) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &file{in: d}
	d.files[name] = f
	out.Mode = regular
	return d.NewPersistentInode(ctx, f, fs.StableAttr{Mode: regular}), nil, 0, 0
}

// Unlink implements fs.NodeUnlinker.
func (d *directory) Unlink(_ context.Context, name string) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, name)
	return 0
}

// Fsync implements fs.NodeFsyncer: names, not contents.
func (d *directory) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.disk.fails() {
		return syscall.EIO
	}
	clear(d.durable)
	for name, f := range d.files {
		d.durable[name] = f
	}
	return 0
}

// fails counts a sync and reports whether it fails.
func (d *Disk) fails() bool { return d.syncs.Add(1) == d.bad.Load() }

// A file is a file.
type file struct {
	fs.Inode
	in      *directory
	content content // guarded by in.mu
}

var (
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeFsyncer   = (*file)(nil)
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
)

// Open implements fs.NodeOpener. The kernel may keep its cache: only the database changes the file, and
// maps it into memory.
func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Read implements fs.NodeReader.
func (f *file) Read(_ context.Context, _ fs.FileHandle, into []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	live := f.content.live
	if at >= int64(len(live)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(into[:copy(into, live[at:])]), 0
}

// Write implements fs.NodeWriter.
func (f *file) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	f.content.change(write{at, append([]byte{}, data...)})
	return uint32(len(data)), 0
}

// Fsync implements fs.NodeFsyncer. A file's own sync brings its name to the disk
// too, as on ext4 and XFS.
func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	if f.in.disk.fails() {
		f.content.forget()
		return syscall.EIO
	}
	f.content.sync()
	for name, at := range f.in.files {
		if at == f {
			f.in.durable[name] = f
		}
	}
	return 0
}

// Getattr implements fs.NodeGetattrer.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	f.attr(out)
	return 0
}

func (f *file) attr(out *fuse.AttrOut) {
	out.Mode, out.Size, out.Nlink = regular, uint64(len(f.content.live)), 1
	out.Blocks = (out.Size + sector - 1) / sector
}

// Setattr implements fs.NodeSetattrer: the size alone.
func (f *file) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	f.in.mu.Lock()
	defer f.in.mu.Unlock()
	if size, ok := in.GetSize(); ok && int64(size) != int64(len(f.content.live)) {
		f.content.change(write{at: int64(size)})
	}
	f.attr(out)
	return 0
}
