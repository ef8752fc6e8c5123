package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/e2e/stores"
	"github.com/gabion-go/gabion/internal/report"
)

// page is docs/stores.md while it is written.
type page struct{ report.Page }

func render(f stores.Figures) string {
	p := new(page)
	p.Line("# Stores")
	p.Line("")
	p.Line("<!-- Written by `make bench`, never by hand. A test reads it back. -->")
	p.Line("")
	p.Line("The cost of a durable claim and its completion, with a body of 1 KiB that can't be compressed, requested by %d goroutines at once. "+
		"Compare the ratios: the other figures are those of this machine and its disk. [idempotency.md](idempotency.md) says what the stores promise.", stores.Workers)
	p.Line("")
	p.pairs(f)
	p.targets(f)
	p.method(f)
	return p.Text()
}

// twins say what a store is compared with.
var twins = map[string]string{
	stores.Bolt: stores.Log, stores.SQLite: stores.Log, stores.PostgresStore: stores.PostgresBare, stores.MySQLStore: stores.MariaDBBare,
	stores.RedisStore: stores.RedisBare, stores.NATSStore: stores.NATSBare,
}

func (p *page) pairs(f stores.Figures) {
	p.Line("## Pairs")
	p.Line("")
	p.Table(1, "", "pairs/s", "p50 ms", "p99 ms", "bytes on disk", "of its floor")
	for _, row := range f.Pairs {
		if row.Missing != "" {
			p.Cells(row.Name, report.NotMeasured, "–", "–", "–", "–")
			continue
		}
		r := median(row)
		share := "–"
		if v, ok := ratio(f, row.Name); ok {
			share = fmt.Sprintf("%.2f× %s", v, twins[row.Name])
		}
		p.Cells(row.Name, number(r.Pairs), report.Decimals(r.P50), report.Decimals(r.P99), number(row.Bytes), share)
	}
	p.Line("")
	for _, row := range f.Pairs {
		if row.Missing != "" {
			p.Line("%s was not measured: %s.", row.Name, row.Missing)
			p.Line("")
		}
	}
}

// median returns the median of each figure over the rounds.
func median(row stores.Row) stores.Round {
	of := func(get func(stores.Round) float64) float64 {
		var all []float64
		for _, r := range row.Rounds {
			all = append(all, get(r))
		}
		return middle(all)
	}
	return stores.Round{
		Pairs: of(func(r stores.Round) float64 { return r.Pairs }),
		P50:   of(func(r stores.Round) float64 { return r.P50 }),
		P99:   of(func(r stores.Round) float64 { return r.P99 }),
	}
}

func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// ratio compares a store with its twin, round by round, and returns the median.
func ratio(f stores.Figures, name string) (float64, bool) {
	store, twin := rowOf(f, name), rowOf(f, twins[name])
	if store == nil || twin == nil || len(store.Rounds) == 0 || len(store.Rounds) != len(twin.Rounds) {
		return 0, false
	}
	var all []float64
	for i := range store.Rounds {
		all = append(all, store.Rounds[i].Pairs/twin.Rounds[i].Pairs)
	}
	return middle(all), true
}

func rowOf(f stores.Figures, name string) *stores.Row {
	for i := range f.Pairs {
		if f.Pairs[i].Name == name {
			return &f.Pairs[i]
		}
	}
	return nil
}

func costOf(f stores.Figures, name string) *stores.Cost {
	for i := range f.Middleware {
		if f.Middleware[i].Name == name {
			return &f.Middleware[i]
		}
	}
	return nil
}

// A target is a bound and how to find what it bounds.
type target struct {
	report.Target
	get func(stores.Figures) (float64, bool)
}

func targets() []target {
	share := func(what, name string, bound float64) target {
		return target{report.Target{What: what, Least: true, Bound: bound, Unit: "×"}, func(f stores.Figures) (float64, bool) { return ratio(f, name) }}
	}
	micros := func(what, name string, bound float64) target {
		return target{report.Target{What: what, Bound: bound, Unit: " µs"}, func(f stores.Figures) (float64, bool) {
			c := costOf(f, name)
			return costed(c, func() float64 { return c.Least() / 1000 })
		}}
	}
	many := func(what string, bound float64, unit string, get func(*stores.Crowd) float64) target {
		return target{report.Target{What: what, Bound: bound, Unit: unit}, func(f stores.Figures) (float64, bool) {
			if f.Many == nil {
				return 0, false
			}
			v := get(f.Many)
			return v, v > 0
		}}
	}
	return []target{
		share("boltstore, of an append log", stores.Bolt, 0.35),
		share("the same, what we would like", stores.Bolt, 0.5),
		share("sqlitestore, of an append log", stores.SQLite, 0.25),
		share("pgxstore, of bare statements", stores.PostgresStore, 0.7),
		share("mysqlstore, of bare statements", stores.MySQLStore, 0.7),
		share("redisstore, of bare scripts", stores.RedisStore, 0.7),
		micros("middleware, new key", stores.NewKey, 3),
		micros("middleware, "+stores.SameKey, stores.SameKey, 3),
		{report.Target{What: "middleware, new key: allocations", Bound: 25}, func(f stores.Figures) (float64, bool) {
			c := costOf(f, stores.NewKey)
			return costed(c, func() float64 { return c.Allocations })
		}},
		micros("middleware, replay", stores.Replay, 2),
		many("boltstore with many records, p99 of a claim during a sweep against before", 2, "×", func(c *stores.Crowd) float64 { return c.SweptP99 / max(c.P99, 1e-9) }),
	}
}

func costed(c *stores.Cost, get func() float64) (float64, bool) {
	if c == nil || len(c.Nanoseconds) == 0 {
		return 0, false
	}
	return get(), true
}

func (p *page) targets(f stores.Figures) {
	p.Line("## Targets")
	p.Line("")
	p.Table(1, "", "measured", "target", "")
	for _, t := range targets() {
		p.Cells(t.Cells(t.get(f))...)
	}
	p.Line("")
	if c := f.Many; c != nil {
		p.Line("The file of many records held %d, of which %d had expired, without bodies. Writing them took %s s, the file has %s MiB, and the process "+
			"has %s MiB more of its own memory with it than without. A claim's p99 was %s ms before the sweep and %s ms during it; the sweep went through %s records a second.",
			c.Records, c.Expired, report.Decimals(c.Fill), number(c.FileMiB), number(c.RSSMiB), report.Decimals(c.P99), report.Decimals(c.SweptP99), number(c.Swept))
		p.Line("")
	}
}

func (p *page) method(f stores.Figures) {
	p.Line("## How it is measured")
	p.Line("")
	p.Line("`%s`, which took %s. Rounds go through all contestants in turn, %d of %s each; figures are medians of rounds, and a ratio is the median of the rounds' ratios. "+
		"The first fifth of a contestant's time in the first round is not counted.", f.Command, f.Took, f.Rounds, f.Each)
	p.Line("")
	p.Line("The append log writes 128 bytes for a claim and 1,152 for a completion to one file, with one sync for all waiting writers. Bare statements, scripts and buckets " +
		"do the claim and the completion as one would by hand, each guarded, on a server of their own with the same settings. PostgreSQL has `fsync` and `synchronous_commit` on " +
		"and 64 connections, Redis `appendfsync always`, the NATS server runs in the same process with `sync_interval: always`. A store that does not call itself durable is not measured. " +
		"Bytes on disk are what the files grew by for each pair; PostgreSQL's are table and index, without its log.")
	p.Line("")
	p.Line("The middleware's cost is that of a request with the Handler less that of the same request without, one goroutine, records in memory, the least of seven rounds. " +
		"With new keys the store forgets as fast as it learns, and the sweeping is part of the cost.")
	p.Line("")
	p.Line("%s, %d processors, %s, %s; load %s when it began. A sync of 1 KiB that was appended takes %s ms (median).", f.CPU, f.Processors, f.System, f.Go, f.Load, report.Decimals(f.Sync))
	if all := slices.Concat(f.Servers, f.Modules); len(all) > 0 {
		p.Line("")
		p.Line("%s.", strings.Join(all, ", "))
	}
}

// number is without decimals, from ten on.
func number(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
