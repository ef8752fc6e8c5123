package gabionsql_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// A pool and a bulkhead that do not fit are an error with their numbers.
func TestThePoolFitsTheBulkhead(t *testing.T) {
	for _, c := range []struct {
		fact string
		b    policy.Bulkhead
		size int    // of the pool; zero: as Open made it
		want string // in the error of CheckPool
	}{
		{"Open takes the limit", policy.Bulkhead{Limit: 7}, 0, ""},
		{"or the highest of a learned one", policy.Bulkhead{Limit: policy.Learned, Max: 9}, 0, ""},
		{"a larger pool is fine", policy.Bulkhead{Limit: 7}, 8, ""},
		{"one without a bound is, too", policy.Bulkhead{Limit: 7}, -1, ""},
		{"a smaller one is not", policy.Bulkhead{Limit: 7}, 6, "lets in 7 calls, and the pool has 6 connections"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			d := dependency(t, policy.Policy{Bulkhead: c.b})
			db, err := gabionsql.Open(&scripted{}, d)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if c.size != 0 {
				db.SetMaxOpenConns(c.size)
			}
			err = gabionsql.CheckPool(db, d)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d connections: %v", db.Stats().MaxOpenConnections, err)
			}
		})
	}
	off := dependency(t, policy.Policy{Bulkhead: policy.Bulkhead{Off: true}})
	if _, err := gabionsql.Open(&scripted{}, off); !errors.Is(err, policy.Invalid) || !strings.Contains(err.Error(), "bulkhead.limit") {
		t.Errorf("without a bulkhead: %v", err)
	}
	db := sql.OpenDB(gabionsql.Connector(&scripted{}, off))
	defer db.Close()
	for _, err := range []error{
		gabionsql.CheckPool(db, off), gabionsql.CheckPool(nil, off), gabionsql.CheckPool(db, nil),
	} {
		if !errors.Is(err, policy.Invalid) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := gabionsql.Open(nil, off); !errors.Is(err, policy.Invalid) {
		t.Errorf("a nil driver: %v", err)
	}
	if _, err := gabionsql.Open(&scripted{}, nil); !errors.Is(err, policy.Invalid) {
		t.Errorf("a nil dependency: %v", err)
	}
}
