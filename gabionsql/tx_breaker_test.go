package gabionsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// Whose fault an error is decides whether the breaker opens.
func TestWhatARunTxShowsOfTheDatabase(t *testing.T) {
	disk := gabion.WithClassify(func(_ any, err error) (o policy.Outcome) {
		if errors.Is(err, errPoor) {
			o.Class, o.Code = policy.ClassUnclassified, "1030"
		}
		return o
	})
	for _, c := range []struct {
		name           string
		work, rollback error
		opts           []gabion.Option
		opens          bool
	}{
		{name: "an error of the work's is not the database's", work: errPoor},
		{name: "nor one that it wraps", work: fmt.Errorf("withdraw: %w", errPoor)},
		{name: "nor a constraint", work: sqlState("23505")},
		{name: "an error that leaves open whether the database lives counts", work: errPoor, rollback: errors.New("what?"), opens: true},
		{name: "one with a code is the database's", work: errPoor, opts: []gabion.Option{disk}, opens: true},
		{name: "so is a server that shuts down", work: sqlState("57P01"), opens: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeDB{rollback: func(context.Context) error { return c.rollback }}
				db := openFake(t, f)
				d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Consecutive: 3}, Retry: policy.Retry{Attempts: 1, Hold: policy.Off}}, c.opts...)
				for range 6 {
					err := gabionsql.RunTx(t.Context(), d, db, func(context.Context, *sql.Tx) error { return c.work })
					if !c.opens && !errors.Is(err, c.work) {
						t.Errorf("%v", err)
					}
				}
				if opens := d.Stats().Main.Breaker.State.String() != "closed"; opens != c.opens {
					t.Errorf("the breaker is %v", d.Stats().Main.Breaker.State)
				}
			})
		})
	}
}
