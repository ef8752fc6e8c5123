package sqliteletters

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// fill puts letters away, many at once.
func fill(t testing.TB, s deadletter.Store, n int) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := s.Put(t.Context(), letter(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// copies adds copies of the first letter, by SQL: a million by the store would take minutes.
func copies(t testing.TB, s *Store, n int) {
	t.Helper()
	exec1(t, s.db, `CREATE TEMP TABLE one AS SELECT * FROM dead_letters LIMIT 1`)
	const columns = `grp, source, reason, ord, state, held, since, token, until, redriven, resolved, drive, bytes, attempts, first, last, key, position, by_whom, note, newest, headers, failures, payload`
	exec1(t, s.db, fmt.Sprintf(`INSERT INTO dead_letters (id, kept, %s) WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d)
		SELECT lower(hex(randomblob(16))), kept + n, %s FROM c, one`, columns, n, columns))
	exec1(t, s.db, fmt.Sprintf(`UPDATE dead_letters_counts SET bytes = bytes / n * (n + %d), n = n + %d`, n, n))
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Many letters are listed by pages and redriven with the memory that few need. With
// GABION_SOAK=1 they are a million.
func TestManyLetters(t *testing.T) {
	testrace.Serial(t)
	n, redriven := 1500, 300
	if os.Getenv("GABION_SOAK") != "" {
		n, redriven = 1_000_000, 30_000
	}
	now := time.Now()
	s := openFile(t, filepath.Join(t.TempDir(), "letters"), deadletter.Options{MaxLetters: -1, MaxBytes: -1, Clock: func() time.Time { return now }})
	begun := time.Now()
	fill(t, s, 500)
	t.Logf("500 letters in %v", time.Since(begun))
	s.db.SetMaxOpenConns(1) // for a temporary table
	copies(t, s, n-500)
	s.db.SetMaxOpenConns(connections)
	for name, q := range map[string]deadletter.Query{
		"all": {}, "of a group": {Group: "g"}, "of a source": {Group: "g", Source: "orders"}, "by prefix": {Prefix: string(letter(250).ID[:12])},
		"in all states": {States: []deadletter.State{0, 1, 2, 3}}, "by a reason that is rare": {Group: "g", Reason: "none"},
	} {
		begun, from, pages := time.Now(), "", 0
		for pages == 0 || from != "" && pages < 20 {
			p, err := s.List(t.Context(), q, from, 100)
			if err != nil {
				t.Fatal(err)
			}
			from, pages = p.Next, pages+1
		}
		t.Logf("a page of letters %s: %v", name, time.Since(begun)/time.Duration(pages))
	}
	begun = time.Now()
	if st, err := s.Stats(t.Context(), ""); err != nil || st.Letters != n {
		t.Errorf("%+v, %v", st, err)
	}
	t.Logf("stats: %v", time.Since(begun))
	begun = time.Now()
	if d, err := s.Order(t.Context(), deadletter.Query{Group: "g"}, deadletter.Drive{Rate: 1e6}); err != nil || d.Total != n {
		t.Fatalf("%+v, %v", d, err)
	}
	t.Logf("ordered in %v", time.Since(begun))
	before, most := heap(), int64(0)
	begun = time.Now()
	for done := 0; done < redriven; {
		now = now.Add(time.Second)
		taken, _, err := s.Take(t.Context(), "g", 100, time.Minute)
		if err != nil || len(taken) != 100 {
			t.Fatalf("%d taken, %v", len(taken), err)
		}
		var all sync.WaitGroup
		for _, l := range taken {
			all.Go(func() {
				if err := s.Settle(t.Context(), l, deadletter.Verdict{State: deadletter.Done}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if done += len(taken); done%(redriven/3) == 0 {
			most = max(most, heap()-before)
		}
	}
	t.Logf("%d redriven in %v, %d bytes more at most", redriven, time.Since(begun), most)
	if most > 8<<20 {
		t.Errorf("a redrive of many letters takes %d bytes more of memory", most)
	}
}
