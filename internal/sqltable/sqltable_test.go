package sqltable

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqlkit"
)

func TestTheTableHasEveryColumn(t *testing.T) {
	for column := range strings.SplitSeq(Columns, ", ") {
		if !strings.Contains(Schema, "\n\t"+column+" ") || !strings.Contains(Bare, column) {
			t.Errorf("column %s is missing in the schema or in lists", column)
		}
	}
	fill, err := Filler(sqlkit.Postgres, "shop.records")
	if err != nil || fill("{table} {index} {columns} {bare}") != "shop.records shop_records "+Columns+" "+Bare {
		t.Errorf("%q, %v", fill("{table} {index} {columns} {bare}"), err)
	}
}

// settings are a row of PostgresSettings.
type settings struct {
	texts [3]string
	kind  *string
}

func (s settings) Scan(to ...any) error {
	for i, text := range s.texts {
		*to[i].(*string) = text
	}
	*to[3].(**string) = s.kind
	return nil
}

func TestEachWeakSettingIsAFlaw(t *testing.T) {
	kept, lost := "p", "u"
	for _, c := range []struct {
		commit, fsync, pages string
		kind                 *string
		flaws                int
	}{
		{"on", "on", "on", &kept, 0}, {"off", "on", "on", &kept, 1}, {"on", "off", "on", &kept, 1}, {"on", "on", "off", &kept, 1},
		{"on", "on", "on", &lost, 1}, {"off", "off", "off", &lost, 4},
	} {
		if found, err := Flaws("t", settings{[3]string{c.commit, c.fsync, c.pages}, c.kind}); err != nil || len(found) != c.flaws {
			t.Errorf("%+v: %q, %v", c, found, err)
		}
	}
	if _, err := Flaws("t", settings{texts: [3]string{"on", "on", "on"}}); !errors.Is(err, ErrNoTable) {
		t.Errorf("no table: %v", err)
	}
}

func TestTimesStayWithinTheDatabasesNumbers(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for _, c := range []struct {
		guarantee        idempotency.Guarantee
		lease, retention time.Duration
		wantLease, due   time.Duration
	}{
		{idempotency.GuaranteeHold, 5, 7, 5, 5},
		{idempotency.GuaranteeReexecute, 5, 7, 5, 12},
		{idempotency.GuaranteeReexecute, most, most, FarOff, 2 * FarOff},
	} {
		lease, due := Times(idempotency.Claim{Guarantee: c.guarantee, Lease: c.lease, Retention: c.retention})
		if lease != int64(c.wantLease) || due != int64(c.due) || time.Now().UnixNano()+due < 0 {
			t.Errorf("%+v: %d, %d", c, lease, due)
		}
	}
}

func TestAListGoesOnAfterTheLastID(t *testing.T) {
	ids := []idempotency.ID{{1}, {2}, {3}}
	page := func(after []byte, limit int) (some []idempotency.Entry, err error) {
		for _, id := range ids {
			if slices.Compare(id[:], after) > 0 && len(some) < limit {
				some = append(some, idempotency.Entry{ID: id})
			}
		}
		return some, nil
	}
	var seen []idempotency.ID
	for cursor := ""; ; {
		entries, next, err := List(cursor, 2, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			seen = append(seen, e.ID)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if !slices.Equal(seen, ids) {
		t.Errorf("listed %v", seen)
	}
	if _, _, err := List("no cursor", 2, page); err == nil {
		t.Error("an invalid cursor")
	}
}

// records are rows of two columns: a version, and an ID, or an error.
type records struct {
	rows []any
	last error
}

func (r *records) Next() bool { return len(r.rows) > 0 }
func (r *records) Err() error { return r.last }
func (r *records) Scan(to ...any) error {
	x := r.rows[0]
	r.rows = r.rows[1:]
	err, failed := x.(error)
	if failed {
		return err
	}
	id := x.(idempotency.ID)
	*to[0].(*[]byte) = id[:]
	*to[2].(*int64), *to[3].(*int64), *to[6].(*int64), *to[11].(*int64) = 7, int64(id[0]), 5, 9 // rev, version, token, created
	return nil
}

func TestAListHasRecordsThatCannotBeRead(t *testing.T) {
	same := func(n int64) int64 { return n }
	all, err := Entries(&records{rows: []any{idempotency.ID{1}, idempotency.ID{2}, idempotency.ID{1, 1}}}, same)
	if err != nil || len(all) != 3 || all[0].Err != nil || !errors.Is(all[1].Err, idempotency.ErrUnreadable) || all[1].ID[0] != 2 || all[1].Record.Token != 5 || all[2].Record.Created != 9 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, rows := range []*records{{rows: []any{errors.New("no")}}, {last: errors.New("no")}} {
		if _, err := Entries(rows, same); err == nil {
			t.Error("an error of the database is lost")
		}
	}
}
