package sqliteletters

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
)

// version1 makes tables as programs had them in which a redrive had rows of its letters: of three letters
// that wait the first is ordered and the second is taken then, and a fourth is done.
const version1 = `
UPDATE dead_letters SET state = state + 1 WHERE state > 0;
UPDATE dead_letters SET state = 1, drive = 'd1' WHERE key = 'key-1';
UPDATE dead_letters SET state = 2, drive = 'd1', until = 1 WHERE key = 'key-2';
DROP INDEX dead_letters_taken; DROP INDEX dead_letters_over;
CREATE INDEX dead_letters_ordered ON dead_letters (drive, ord, kept, id) WHERE state = 1;
CREATE INDEX dead_letters_taken ON dead_letters (drive, until) WHERE state = 2;
CREATE INDEX dead_letters_busy ON dead_letters (grp, ord, until) WHERE state = 2;
CREATE INDEX dead_letters_over ON dead_letters (since) WHERE state >= 3;
DROP TABLE dead_letters_redrives;
CREATE TABLE dead_letters_drives (id varchar(40) PRIMARY KEY, remain bigint NOT NULL);
INSERT INTO dead_letters_drives VALUES ('d1', 2);
DELETE FROM dead_letters_counts WHERE state < 253;
INSERT INTO dead_letters_counts (grp, state, reason, held, shard, n, bytes) SELECT grp, state, reason, held, 3, count(*), sum(bytes) FROM dead_letters GROUP BY grp, state, reason, held;
UPDATE dead_letters_schema SET version = 1`

// No letter is lost: what was ordered waits, and what a consumer has is its own until its lease ends.
func TestTablesOfVersion1AreMigrated(t *testing.T) {
	open := map[string]func(*testing.T) (*sql.DB, *sqlletters.Store){
		"sqlite": func(t *testing.T) (*sql.DB, *sqlletters.Store) {
			s := openFile(t, filepath.Join(t.TempDir(), "letters"), deadletter.Options{})
			return s.db, s.Store
		},
		"postgres": func(t *testing.T) (*sql.DB, *sqlletters.Store) {
			return openPostgres(t, testservers.Postgres(t), Table, deadletter.Options{})
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			db, s := open(t)
			for n := range 4 {
				l := letter(n)
				if n == 3 {
					l.Reason = deadletter.Unknown
				}
				if err := s.Put(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Resolve(t.Context(), letter(3).ID, deadletter.ResolvedAsDone, "ann", ""); err != nil {
				t.Fatal(err)
			}
			for _, text := range strings.Split(version1, ";") {
				if name == "postgres" {
					text = strings.ReplaceAll(text, "WHERE key = 'key-1'", "WHERE key = 'key-1'::bytea")
					text = strings.ReplaceAll(text, "WHERE key = 'key-2'", "WHERE key = 'key-2'::bytea")
				}
				exec1(t, db, text)
			}
			if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "Migrate") {
				t.Errorf("before: %v", err)
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			st, err := s.Stats(t.Context(), "g")
			if err != nil || st.Letters != 3 || st.ByState[deadletter.Waiting] != 2 || st.ByState[deadletter.Taken] != 1 || st.ByState[deadletter.Done] != 1 || st.Put != 4 {
				t.Errorf("%+v, %v", st, err)
			}
			if d, err := s.Order(t.Context(), deadletter.Query{Group: "g"}, deadletter.Drive{Rate: 1e9}); err != nil || d.Total != 3 {
				t.Errorf("%+v, %v", d, err)
			}
			taken, _, err := s.Take(t.Context(), "g", 5, time.Minute)
			if err != nil || len(taken) != 3 {
				t.Errorf("%v, %v", taken, err)
			}
		})
	}
}
