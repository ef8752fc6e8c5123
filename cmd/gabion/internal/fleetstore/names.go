package fleetstore

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/suggest"
)

// The bounds of a look for other fleets, which may not cost a store much.
const (
	namesTime   = time.Second
	mostNames   = 100
	mostScanned = 100 // times a thousand keys of Redis
)

// Elsewhere says which other fleets the store has, where one has no members: its name may be misspelled. It says nothing where the store
// has no other, or does not tell.
func Elsewhere(ctx context.Context, s fleet.Store, name string) string {
	t, is := s.(told)
	if !is || t.names == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, namesTime)
	defer cancel()
	all := slices.DeleteFunc(t.names(ctx), func(one string) bool { return one == name })
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	all = slices.Compact(all)
	text := "the store has " + strings.Join(all[:min(len(all), 5)], ", ")
	if len(all) > 5 {
		text += " and others"
	}
	if near := suggest.Nearest(name, all); near != "" {
		text += "; did you mean --fleet " + near + "?"
	}
	return text
}

// redisNames looks for hashes that have a pool: a fleet that has only overrides may be a name that was misspelled. Who may not look for
// keys finds none, and of very many the first are looked at.
func redisNames(client *redis.Client, prefix string) func(context.Context) []string {
	return func(ctx context.Context) (all []string) {
		var keys []string
		var next uint64
		var err error
		for range mostScanned {
			keys, next, err = client.Scan(ctx, next, globbed(prefix)+"*", 1000).Result()
			for _, key := range keys {
				name := strings.TrimPrefix(key, prefix)
				if has, err := client.HExists(ctx, key, name+"/pool").Result(); has || err != nil { // who may not ask hears of all
					all = append(all, name)
				}
			}
			if err != nil || next == 0 || len(all) >= mostNames {
				break
			}
		}
		return all
	}
}

// globbed is text in which no letter stands for others.
func globbed(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// postgresNames reads the keys of pools. The table's name was checked.
func postgresNames(pool *pgxpool.Pool, table string) func(context.Context) []string {
	return func(ctx context.Context) (all []string) {
		rows, err := pool.Query(ctx, "SELECT split_part(key, '/', 1) FROM "+table+" WHERE key LIKE '%/pool' LIMIT $1", mostNames)
		if err != nil {
			return nil
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if rows.Scan(&name) == nil {
				all = append(all, name)
			}
		}
		return all
	}
}

// natsNames reads the subjects of pools: of each fleet it is one.
func natsNames(js jetstream.JetStream, bucket string) func(context.Context) []string {
	return func(ctx context.Context) (all []string) {
		stream, err := js.Stream(ctx, "KV_"+bucket)
		if err != nil {
			return nil
		}
		subject := "$KV." + bucket + "."
		i, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject+"*.pool"))
		if err != nil {
			return nil
		}
		for one := range i.State.Subjects {
			name, _, _ := strings.Cut(strings.TrimPrefix(one, subject), ".")
			if name, err = url.PathUnescape(strings.ReplaceAll(name, "=", "%")); err == nil && len(all) < mostNames {
				all = append(all, name)
			}
		}
		return all
	}
}
