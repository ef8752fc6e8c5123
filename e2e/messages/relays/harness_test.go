package relays

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

// patience is how long a test waits for what a machine that works would bring.
const patience = 60 * time.Second

// A shop is a database with an outbox.
type shop struct {
	*testing.T
	db      *sql.DB
	dialect outbox.Dialect
	box     *outbox.Outbox

	postgres bool
}

// onBoth runs tests on PostgreSQL and on SQLite, each with tables of its own.
func onBoth(t *testing.T, tests map[string]func(*shop)) {
	dsn := testservers.Postgres(t)
	admin := openPostgres(t, dsn)
	n := 0
	for name, test := range tests {
		n++
		schema := fmt.Sprint("shop", n)
		if _, err := admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		t.Run(name+"/PostgreSQL", func(t *testing.T) {
			t.Parallel()
			test(newShop(t, openPostgres(t, dsn+"&search_path="+schema), outbox.Postgres, outbox.Options{}))
		})
		t.Run(name+"/SQLite", func(t *testing.T) {
			t.Parallel()
			test(newShop(t, openSQLite(t, filepath.Join(t.TempDir(), "shop.db")), outbox.SQLite, outbox.Options{}))
		})
	}
}

func openPostgres(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openSQLite(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, _, err := sqlitestore.Open(t.Context(), file, "keys")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func newShop(t *testing.T, db *sql.DB, d outbox.Dialect, o outbox.Options) *shop {
	t.Helper()
	box, err := outbox.New(db, d, "outbox", o)
	if err == nil {
		err = box.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return &shop{T: t, db: db, dialect: d, box: box, postgres: reflect.DeepEqual(d, outbox.Postgres)}
}

// in runs work in a transaction. Any goroutine may call it.
func (s *shop) in(work func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(s.Context(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// enqueue enqueues messages and commits.
func (s *shop) enqueue(messages ...outbox.Message) {
	s.Helper()
	if err := s.in(func(tx *sql.Tx) error { return s.box.Enqueue(s.Context(), tx, messages...) }); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) stats() outbox.Stats {
	s.Helper()
	got, err := s.box.Stats(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return got
}

// wantStats waits until the numbers of rows are those.
func (s *shop) wantStats(waiting, resting, parked int) {
	s.Helper()
	var got outbox.Stats
	s.eventually(func() bool {
		got = s.stats()
		return got.Waiting == waiting && got.Resting == resting && got.Parked == parked
	}, func() string {
		return fmt.Sprintf("%+v, want %d waiting, %d resting, %d parked", got, waiting, resting, parked)
	})
}

func (s *shop) eventually(is func() bool, or func() string) {
	s.Helper()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(patience); !is(); <-ticks.C {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", patience, or())
		}
	}
}

// A relaying is a relay that runs.
type relaying struct {
	*outbox.Relay
	stop func() // and waits for the end
	mu   sync.Mutex
	told []outbox.Notice
}

func (r *relaying) notices(kind outbox.NoticeKind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.told {
		if one.Kind == kind {
			n++
		}
	}
	return n
}

// quick is a policy whose relay does not wait long.
var quick = policy.Policy{
	Timeout: policy.Timeout{Call: 4 * time.Second, Attempt: time.Second},
	Retry:   policy.Retry{Attempts: 2, Backoff: backoff.Const(10 * time.Millisecond)},
}

func dependency(p policy.Policy) *gabion.Dependency { return gabion.New("broker", p) }

func (s *shop) relay(p outbox.Publisher, o outbox.RelayOptions) *relaying {
	s.Helper()
	r := &relaying{}
	if o.Poll == 0 {
		o.Poll = 20 * time.Millisecond
	}
	if o.Notify == nil {
		o.Notify = func(n outbox.Notice) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, n)
		}
	}
	var err error
	if r.Relay, err = s.box.Relay(p, dependency(quick), o); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			s.Error(err)
		}
	})
	r.stop = func() { cancel(); running.Wait() }
	s.Cleanup(r.stop)
	return r
}

var errNo = errors.New("the broker does not want it")

// A memory is a broker that keeps what it got, in its order.
type memory struct {
	mu      sync.Mutex
	got     []outbox.Message
	refuses map[string]error // by id
}

// Publish implements outbox.Publisher.
func (b *memory) Publish(_ context.Context, messages []outbox.Message) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	errs := make([]error, len(messages))
	for i, m := range messages {
		if errs[i] = b.refuses[m.ID]; errs[i] == nil {
			b.got = append(b.got, m)
		}
	}
	return errs
}

func (b *memory) refuse(id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses = maps.Clone(b.refuses)
	if b.refuses == nil {
		b.refuses = map[string]error{}
	}
	b.refuses[id] = err
}

// ids are those of the messages in the order in which they came first.
func (b *memory) ids() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.got {
		if !slices.Contains(ids, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (s *shop) wantIDs(b *memory, want ...string) {
	s.Helper()
	s.eventually(func() bool { return len(b.ids()) >= len(want) }, func() string { return fmt.Sprint(b.ids(), ", want ", want) })
	if got := b.ids(); !slices.Equal(got, want) {
		s.Errorf("published %q, want %q", got, want)
	}
}
