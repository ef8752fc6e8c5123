package sqliteletters

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
)

// Table is the beginning of the tables' names in a file that [Open] opens.
const Table = "dead_letters"

// pragmas make a commit survive a power cut (WAL with synchronous=FULL), let readers and the
// one writer work side by side, and make writers wait for each other for up to five seconds
// instead of failing. Transactions begin as writers: one that began as a reader could not
// wait. The cache of 16 MiB holds the index of the IDs of some hundred thousand letters, which
// are added all over it.
const pragmas = "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=cache_size(-16384)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// connections are enough for one writer and some readers: more only wait for the processor.
const connections = 8

// A Store is the letters of one file. Safe for concurrent use, and for several processes of
// one machine.
type Store struct {
	*sqlletters.Store
	db *sql.DB
}

// Open opens a file of letters. It makes the file (with permissions 0600) and its tables if they
// are missing, and brings tables of an older program up to date. Tables of a newer one
// are deadletter.ErrSchema. A file that may only be read can be read, also in a directory that
// may only be read while no process has it open. Close the store at the end.
func Open(ctx context.Context, file string, o deadletter.Options) (*Store, error) {
	s, err := open(ctx, file, o)
	if err != nil {
		return nil, fmt.Errorf("sqliteletters: open %s: %w", file, err)
	}
	return s, nil
}

// OpenExisting is Open for a file that has to be there, as a command wants it that was given
// its name by hand. The error of one that is not there is fs.ErrNotExist.
func OpenExisting(ctx context.Context, file string, o deadletter.Options) (*Store, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("sqliteletters: open: %w", err)
	}
	return Open(ctx, file, o)
}

var errMemory = errors.New("a file is needed: for letters in memory take deadletter.NewMemory")

func open(ctx context.Context, file string, o deadletter.Options) (*Store, error) {
	if file == "" || file == ":memory:" {
		return nil, errMemory
	}
	if err := create(file); err != nil {
		return nil, err
	}
	s, err := connect(ctx, file, pragmas, o)
	if sqlkit.AtRest(file, err) {
		return connect(ctx, file, sqlkit.Resting, o)
	}
	return s, err
}

func connect(ctx context.Context, file, options string, o deadletter.Options) (*Store, error) {
	db, err := sql.Open("sqlite", sqlkit.FileName(file, options))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	letters, err := sqlletters.New(db, sqlletters.SQLite, Table, o)
	if err == nil {
		err = letters.Migrate(ctx)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return &Store{letters, db}, nil
}

// create makes a missing file. One that may only be read is left to reading.
func create(file string) error {
	err := sqlkit.CreateFile(file)
	if errors.Is(err, os.ErrPermission) {
		var f *os.File
		if f, err = os.Open(file); err == nil {
			err = f.Close()
		}
	}
	return err
}

// Close closes the file. What was acknowledged is in it.
func (s *Store) Close() error { return s.db.Close() }
