package gabionsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Replicas are a database's primary and its replicas, which are behind in time. Writes use the Primary through a
// dependency of their own. Reads that may be behind use a dependency whose endpoints are [Replicas.Resolve], and ask
// [Replicas.At] for the pool of their attempt. A Replicas is safe for concurrent use; its fields must not change.
type Replicas struct {
	Primary *sql.DB            // not nil; its endpoint is named "primary"
	Pools   map[string]*sql.DB // the replicas, by the names of their endpoints

	// Lag says how far a replica is behind. It is asked about several replicas at once. Nil means that it is not asked: then what is read may be of any age.
	Lag func(ctx context.Context, replica *sql.DB) (time.Duration, error)

	// MaxLag is how far a replica may be behind to be read from. Zero means 10 s. What is read may be older by the time
	// between two calls of Resolve.
	MaxLag time.Duration
}

const (
	primaryName = "primary"
	defaultLag  = 10 * time.Second
	lagTime     = 2 * time.Second // for one replica to say how far it is behind
)

// At returns the pool of the endpoint that the attempt of ctx goes to: that of a replica, or the Primary where the dependency has
// no endpoints, or others than these.
func (r *Replicas) At(ctx context.Context) *sql.DB {
	if db := r.Pools[gabion.EndpointOf(ctx).Name]; db != nil {
		return db
	}
	return r.Primary
}

// Resolve is a [gabion.Resolver]: the replicas that are no further behind than MaxLag and say so within 2 s, in the order of their
// names, and the primary alone where no replica is.
func (r *Replicas) Resolve(ctx context.Context) ([]policy.Endpoint, error) {
	if r.Primary == nil {
		return nil, errors.New("gabionsql: Replicas has no Primary")
	}
	names := slices.Sorted(maps.Keys(r.Pools))
	fit, crashes := make([]bool, len(names)), make([]any, len(names))
	var asked sync.WaitGroup
	for i, name := range names { // at once, so that those that hang cost the time of one
		asked.Go(func() {
			defer func() { crashes[i] = recover() }()
			fit[i] = r.fit(ctx, r.Pools[name])
		})
	}
	asked.Wait()
	var list []policy.Endpoint
	for i, name := range names {
		if crashes[i] != nil {
			panic(crashes[i])
		}
		if fit[i] {
			list = append(list, policy.Endpoint{Name: name})
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		list = []policy.Endpoint{{Name: primaryName}}
	}
	return list, nil
}

// fit reports whether a replica may be read from.
func (r *Replicas) fit(ctx context.Context, db *sql.DB) bool {
	if db == nil || r.Lag == nil {
		return db != nil
	}
	within := lagTime
	if end, ok := ctx.Deadline(); ok { // one that hangs must not take it all, or the list would stay as it is
		within = min(within, time.Until(end)*3/4)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	most := r.MaxLag
	if most <= 0 {
		most = defaultLag
	}
	lag, err := r.Lag(ctx, db)
	return err == nil && max(lag, -lag) <= most // below zero its clock is behind that of the primary
}

// LagOf makes a [Replicas.Lag] of a query that returns the seconds which a replica is behind. No row, and NULL, mean that it is not
// known. docs/sql.md has the queries of PostgreSQL and MySQL.
func LagOf(query string) func(context.Context, *sql.DB) (time.Duration, error) {
	return func(ctx context.Context, db *sql.DB) (time.Duration, error) {
		var seconds sql.NullFloat64
		if err := db.QueryRowContext(ctx, query).Scan(&seconds); err != nil {
			return 0, err
		}
		if !seconds.Valid || seconds.Float64 != seconds.Float64 || seconds.Float64 > 1e9 {
			return 0, fmt.Errorf("gabionsql: it is not known how far the replica is behind")
		}
		return time.Duration(seconds.Float64 * float64(time.Second)), nil
	}
}
