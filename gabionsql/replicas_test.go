package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// behind is a database that is asked how far it is behind, or who it is.
type behind struct {
	name string
	lag  any // seconds, nil for NULL, or an error
}

func (b behind) Connect(context.Context) (driver.Conn, error) { return b, nil }
func (b behind) Driver() driver.Driver                        { return nil }
func (b behind) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (b behind) Close() error                                 { return nil }
func (b behind) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }

func (b behind) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if query != "lag" {
		return &lagRow{b.name}, nil
	}
	if err, bad := b.lag.(error); bad {
		return nil, err
	}
	return &lagRow{b.lag}, nil
}

type lagRow struct{ v any }

func (r *lagRow) Columns() []string { return []string{"v"} }
func (r *lagRow) Close() error      { return nil }
func (r *lagRow) Next(to []driver.Value) error {
	if r.v == io.EOF {
		return io.EOF
	}
	to[0], r.v = r.v, io.EOF
	return nil
}

func pools(lags map[string]any) *gabionsql.Replicas {
	r := &gabionsql.Replicas{Primary: sql.OpenDB(behind{"primary", 0.0}), Pools: map[string]*sql.DB{}, Lag: gabionsql.LagOf("lag")}
	for name, lag := range lags {
		r.Pools[name] = sql.OpenDB(behind{name, lag})
	}
	return r
}

func TestReplicasThatAreTooFarBehindAreNotRead(t *testing.T) {
	for _, c := range []struct {
		fact string
		lags map[string]any
		want string
	}{
		{"both are fit", map[string]any{"b": 0.1, "a": 10.0}, "a b"},
		{"one is late", map[string]any{"a": 10.1, "b": 0.1}, "b"},
		{"one is away", map[string]any{"a": errors.New("away"), "b": 0.1}, "b"},
		{"the clock of one is behind", map[string]any{"a": -0.02, "b": -3600.0}, "a"},
		{"nothing is known of one", map[string]any{"a": nil, "b": 0.1}, "b"},
		{"none is fit", map[string]any{"a": 11.0, "b": 12.0}, "primary"},
		{"there are no replicas", nil, "primary"},
	} {
		r := pools(c.lags)
		list, err := r.Resolve(t.Context())
		var got []string
		for _, e := range list {
			got = append(got, e.Name)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v", c.fact, got, err)
		}
		reads := gabion.New("reads", policy.Policy{Safe: true})
		if err := gabion.ResolveEndpoints(t.Context(), reads, r.Resolve); err != nil {
			t.Fatal(err)
		}
		asked := map[string]bool{}
		for range 50 {
			name, err := gabion.Do(t.Context(), reads, func(ctx context.Context) (name string, err error) {
				err = r.At(ctx).QueryRowContext(ctx, "who").Scan(&name)
				return name, err
			})
			if err != nil {
				t.Fatal(err)
			}
			asked[name] = true
		}
		for name := range asked {
			if !strings.Contains(c.want, name) || len(asked) != len(strings.Fields(c.want)) {
				t.Errorf("%s: asked %v, want %s", c.fact, asked, c.want)
			}
		}
	}
	if _, err := new(gabionsql.Replicas).Resolve(t.Context()); err == nil {
		t.Error("without a primary")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if list, err := pools(map[string]any{"a": 0.1}).Resolve(gone); err == nil {
		t.Errorf("after the end of the context: %v", list)
	}
	if got := pools(nil).At(t.Context()); got == nil {
		t.Error("outside of an attempt there is no pool")
	}
}

// Replicas that hang cost the time of one, and leave enough of it to say which others are fit.
func TestReplicasThatHangAreLeftOutInTime(t *testing.T) {
	r := pools(map[string]any{"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0})
	hangs := r.Pools["a"]
	r.Lag = func(ctx context.Context, db *sql.DB) (time.Duration, error) {
		if db != hangs {
			<-ctx.Done()
		}
		return 0, ctx.Err()
	}
	for _, within := range []time.Duration{time.Second, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			if list, err := r.Resolve(ctx); err != nil || len(list) != 1 || list[0].Name != "a" {
				t.Errorf("within %v: %v, %v", within, list, err)
			}
		})
	}
	r.Lag = func(context.Context, *sql.DB) (time.Duration, error) { panic("no") }
	if err := gabion.ResolveEndpoints(t.Context(), gabion.New("reads", policy.Policy{}), r.Resolve); err == nil || !strings.Contains(err.Error(), "panicked: no") {
		t.Errorf("a Lag that panics: %v", err)
	}
}

func ExampleReplicas() {
	ctx := context.Background()
	db := pools(map[string]any{"replica-1": 0.2, "replica-2": 60.0})
	writes := gabion.New("orders", policy.Policy{})
	reads := gabion.New("orders-reads", policy.Policy{Safe: true})
	if err := gabion.ResolveEndpoints(ctx, reads, db.Resolve); err != nil { // and go gabion.FollowEndpoints(ctx, reads, 5*time.Second, db.Resolve)
		fmt.Println(err)
	}
	who := func(ctx context.Context) (name string, err error) {
		err = db.At(ctx).QueryRowContext(ctx, "SELECT name").Scan(&name)
		return name, err
	}
	from, _ := gabion.Do(ctx, reads, who)
	to, _ := gabion.Do(ctx, writes, who)
	fmt.Println("read from", from, "and written to", to, "with a lag of at most", 10*time.Second)
	// Output: read from replica-1 and written to primary with a lag of at most 10s
}

func ExampleLagOf() {
	lag := gabionsql.LagOf("lag") // the query of your database: docs/sql.md has some
	took, err := lag(context.Background(), sql.OpenDB(behind{"replica-1", 0.25}))
	fmt.Println(took, err)
	// Output: 250ms <nil>
}
