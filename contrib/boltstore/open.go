package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gabion-go/gabion/idempotency"
)

// Why a store or its file refuses.
var (
	// ErrLocked: another process has the file, or this one has it twice.
	ErrLocked = errors.New("boltstore: another process has the file")

	// ErrPoisoned: a write or a sync failed, and nothing is accepted until the file
	// is opened again. The cause is wrapped beside it. Whether the change that met it
	// was made is unknown.
	ErrPoisoned = errors.New("boltstore: a write failed, and nothing is accepted until the file is opened again")

	// ErrClosed: the store was closed before the operation began. Nothing was changed.
	ErrClosed = errors.New("boltstore: the store is closed")

	// ErrFormat: the file is of a newer version of this package, or not of it at all.
	// It was left as it is.
	ErrFormat = errors.New("boltstore: not a file that this version can use")
)

// Options are how a file is opened. The zero value is sound.
type Options struct {
	// LockTimeout is how long Open waits for another process to let go of the file,
	// as when one version of a service replaces another. Zero means 1 s, and a
	// negative value that it doesn't wait.
	LockTimeout time.Duration

	// Mode is the new file's permissions. Zero means 0600: responses are in it.
	Mode fs.FileMode
}

const (
	lockTimeout = time.Second
	fileMode    = fs.FileMode(0o600)
	format      = 1    // of the buckets; records have a version of their own
	orphanBatch = 1024 // records whose leases are ended in one transaction
)

// A Store is an [idempotency.Store] in a file. Make one with [Open]. Safe for
// concurrent use.
type Store struct {
	db   *bbolt.DB
	caps idempotency.Caps

	index index

	base   idempotency.Moment // the store's time when it was opened
	origin time.Time          // the moment of base, by the monotonic clock

	queue   chan *op      // what waits for the writer
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the writer is gone
	reason  error         // why it is gone; read after stopped

	flight atomic.Pointer[flight] // what the writer is committing, or committed last

	// Only the writer uses these.
	last    idempotency.Moment // the largest time that a record was given
	lost    []byte             // how far sweeps have looked in running
	expired []byte             // and in finished

	close    sync.Once
	closeErr error
}

var _ idempotency.Store = (*Store)(nil)

// Open opens the file, and creates it if it is missing; its folder must be there. It returns ErrLocked
// if another process keeps the file, and ErrFormat if the file is something else. Runs that the last
// process left count as lost from now on, whatever is left of their leases: the file's lock proves that
// they have ended.
func Open(file string, o Options) (*Store, error) { return open(file, o, 0) }

// open is Open on a machine whose clock is wrong by skew.
func open(file string, o Options, skew time.Duration) (*Store, error) {
	if o.LockTimeout == 0 {
		o.LockTimeout = lockTimeout
	}
	if o.Mode == 0 {
		o.Mode = fileMode
	}
	var f *os.File
	db, err := bbolt.Open(file, o.Mode, &bbolt.Options{
		Timeout:        o.LockTimeout,
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true, // the list of a swept file is large, and would be written with each transaction
		NoStatistics:   true, // a lock for each reader
		OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
			f, err = os.OpenFile(name, flag, mode)
			return f, err
		},
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open %s: %w", file, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("boltstore: open %s: %w", file, err)
	}
	s := &Store{
		db: db, origin: time.Now(),
		queue: make(chan *op, queueLength), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.caps = idempotency.Caps{Durable: true, ServerClock: true, MaxValue: maxBody, Warnings: warnings(file)}
	if err := s.prepare(f, skew); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("boltstore: open %s: %w", file, err)
	}
	go s.write()
	return s, nil
}

// prepare makes sure of what is in the file before anything is added to it.
func (s *Store) prepare(f *os.File, skew time.Duration) error {
	if err := settle(f, s.db.Info().PageSize); err != nil {
		return err
	}
	if err := s.db.Update(s.format); err != nil {
		return err
	}
	s.base = max(idempotency.Moment(s.origin.Add(skew).UnixNano()), s.last)
	return s.load()
}

// settle writes the two pages from which all others are found once more, as they
// are. If the last process met a failed sync, the kernel may show a page that never
// reached the disk and that it believes to be clean; the pages it replaced would then
// be overwritten while the disk still needs them. The folder is synced because a new
// file is lost in a power cut while its name is not on the disk.
func settle(f *os.File, pageSize int) error {
	meta := make([]byte, 2*pageSize)
	if _, err := f.ReadAt(meta, 0); err != nil {
		return err
	}
	if _, err := f.WriteAt(meta, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // there a folder can't be synced
	}
	dir, err := os.Open(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// format creates the buckets of a new file, or checks those of an old one and reads
// its clock.
func (s *Store) format(tx *bbolt.Tx) error {
	if first, _ := tx.Cursor().First(); first == nil {
		for _, name := range [][]byte{bucketStore, bucketRunning, bucketFinished} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketStore).Put(keyFormat, binary.BigEndian.AppendUint64(nil, format))
	}
	b := tx.Bucket(bucketStore)
	if b == nil {
		return fmt.Errorf("%w: it is another program's", ErrFormat)
	}
	if got, err := number(b.Get(keyFormat)); err != nil || got != format {
		return fmt.Errorf("%w: it is of format %d and this program knows %d", ErrFormat, got, format)
	}
	if text := b.Get(keyClock); text != nil {
		last, err := number(text)
		s.last = idempotency.Moment(last)
		return err
	}
	return nil
}

func number(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: it is damaged", ErrFormat)
	}
	return binary.BigEndian.Uint64(b), nil
}

// load fills the index and ends the leases of all running records.
func (s *Store) load() error {
	s.index.due = map[idempotency.ID]idempotency.Moment{}
	var live []idempotency.ID
	err := s.db.View(func(tx *bbolt.Tx) error {
		t := s.tables(tx)
		if err := t.running.ForEach(func(k, v []byte) error {
			at := dueKey(k)
			t.set(at.id(), at.due())
			var r idempotency.Record
			if r.UnmarshalBinary(v) == nil && r.LeaseUntil > s.base {
				live = append(live, at.id())
			}
			return nil // what can't be read is left to the program that wrote it
		}); err != nil {
			return err
		}
		return t.finished.ForEach(func(k, _ []byte) error {
			at := dueKey(k)
			t.set(at.id(), at.due())
			return nil
		})
	})
	for len(live) > 0 && err == nil {
		batch := live[:min(len(live), orphanBatch)]
		live = live[len(batch):]
		err = s.db.Update(func(tx *bbolt.Tx) error {
			t := s.tables(tx)
			for _, id := range batch {
				if err := t.endLease(id, s.base); err != nil {
					return err
				}
			}
			return t.failed
		})
	}
	return err
}

// Close stops the store once what is queued has been done, and lets go of the file.
// Later operations return ErrClosed. It may be called more than once.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.closing)
		<-s.stopped
		if err := s.db.Close(); err != nil {
			s.closeErr = fmt.Errorf("boltstore: close: %w", err)
		}
	})
	return s.closeErr
}

// now is the wall clock as it was when the store was opened, or the largest time in
// the file if that is later, plus what the monotonic clock has counted since: setting
// the machine's clock ends no lease and brings none back.
func (s *Store) now() idempotency.Moment { return s.base.Add(time.Since(s.origin)) }

// Caps implements [idempotency.Store].
func (s *Store) Caps() idempotency.Caps { return s.caps }
