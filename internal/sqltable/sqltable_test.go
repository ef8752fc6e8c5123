package sqltable

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

func TestTheTableHasEveryColumn(t *testing.T) {
	for column := range strings.SplitSeq(Columns, ", ") {
		if !strings.Contains(Schema, "\n\t"+column+" ") || !strings.Contains(Bare, column) {
			t.Errorf("column %s is missing in the schema or in lists", column)
		}
	}
	for _, bad := range []string{"", "a b", "a;b", "a.b.c", "1a", `a"`} {
		if _, err := Fill(bad); err == nil {
			t.Errorf("%q is taken for a table's name", bad)
		}
	}
	fill, err := Fill("shop.records", "{blob}", "bytea")
	if err != nil || fill("{table} {index} {blob}") != "shop.records shop_records_due bytea" {
		t.Errorf("%q, %v", fill("{table} {index} {blob}"), err)
	}
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
		if found, err := Flaws("t", c.commit, c.fsync, c.pages, c.kind); err != nil || len(found) != c.flaws {
			t.Errorf("%+v: %q, %v", c, found, err)
		}
	}
	if _, err := Flaws("t", "on", "on", "on", nil); !errors.Is(err, ErrNoTable) {
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
	if e, err := EntryOf(ids[0][:], idempotency.Record{}, idempotency.ErrUnreadable); err != nil || e.Err == nil || e.ID != ids[0] {
		t.Errorf("a record that can't be read: %+v, %v", e, err)
	}
}
