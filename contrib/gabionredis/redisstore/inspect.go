package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Findings are what the settings of a server, or of all masters of a cluster,
// amount to.
type findings struct {
	durable  bool
	warnings []string // sorted
}

func inspect(ctx context.Context, client redis.UniversalClient) (findings, error) {
	all := findings{durable: true, warnings: clientWarnings(client)}
	var mu sync.Mutex // guards all: servers are asked side by side
	err := eachMaster(ctx, client, func(ctx context.Context, _ string, server redis.Cmdable) error {
		one, err := inspectServer(ctx, server)
		mu.Lock()
		defer mu.Unlock()
		all.durable = all.durable && one.durable
		all.warnings = append(all.warnings, one.warnings...)
		return err
	})
	slices.Sort(all.warnings)
	all.warnings = slices.Compact(all.warnings)
	return all, err
}

// eachMaster calls for every server that takes writes; those of a cluster side by
// side.
func eachMaster(ctx context.Context, client redis.UniversalClient, call func(context.Context, string, redis.Cmdable) error) error {
	cluster, many := client.(*redis.ClusterClient)
	if !many {
		return call(ctx, "", client)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		return call(ctx, server.Options().Addr, server)
	})
}

// clientWarnings looks at the one setting of the client that matters.
func clientWarnings(client redis.UniversalClient) []string {
	heeds := true
	switch c := client.(type) {
	case *redis.Client:
		heeds = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		heeds = c.Options().ContextTimeoutEnabled
	}
	if heeds {
		return nil
	}
	return []string{"the Redis client ignores deadlines of contexts, so a call may outlast the lease that it should extend: set ContextTimeoutEnabled in its options"}
}

func inspectServer(ctx context.Context, server redis.Cmdable) (f findings, err error) {
	text, err := server.Info(ctx).Result()
	if err != nil {
		return f, err
	}
	info := fields(text)
	if err := usable(info); err != nil {
		return f, err
	}
	f.durable, f.warnings = durability(ctx, server, info["aof_enabled"])
	switch policy := info["maxmemory_policy"]; policy {
	case "noeviction":
	case "":
		f.warn("the Redis server does not say whether it evicts keys: set maxmemory-policy to noeviction")
	default:
		f.warn("the Redis server drops records to make room (maxmemory-policy is %s), and their work would run again: set maxmemory-policy to noeviction", policy)
	}
	if n := info["connected_slaves"]; n != "" && n != "0" {
		f.warn("the Redis server's replicas follow asynchronously, so a failover can forget a claim that was acknowledged and its work would run again: " +
			"set min-replicas-to-write and min-replicas-max-lag, which make that rarer, or keep these records in a SQL database")
	}
	return f, nil
}

func (f *findings) warn(format string, args ...any) {
	f.warnings = append(f.warnings, fmt.Sprintf(format, args...))
}

// fields reads what INFO answers.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			all[name] = value
		}
	}
	return all
}

// usable refuses servers that can't keep records. Valkey says which Redis it is
// compatible with.
func usable(info map[string]string) error {
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("the server is Redis %q: it must be 7.0 or later, or Valkey", version)
	}
	if info["role"] == "slave" {
		return errors.New("the server is a replica and takes no writes: connect to its master")
	}
	return nil
}

// durability finds out whether an answer leaves only after its record is on disk.
func durability(ctx context.Context, server redis.Cmdable, aof string) (bool, []string) {
	const remedy = "set appendonly to yes, appendfsync to always and no-appendfsync-on-rewrite to no"
	if aof == "0" {
		return false, []string{"the Redis server has no append-only file, so a restart forgets claims and results and their work would run again: " + remedy}
	}
	got, err := server.ConfigGet(ctx, "*appendfsync*").Result()
	if err != nil || aof == "" || got["appendfsync"] == "" {
		return false, []string{"the Redis server does not show its settings, so it is unknown whether it syncs each write to disk: " + remedy + ", and allow CONFIG GET"}
	}
	if how := got["appendfsync"]; how != "always" {
		return false, []string{"the Redis server does not sync each write to disk (appendfsync is " + how + "), so a crash forgets the last claims and their work would run again: " + remedy}
	}
	if got["no-appendfsync-on-rewrite"] != "no" {
		return false, []string{"the Redis server does not sync writes while it rewrites its append-only file, so a crash during that forgets claims: set no-appendfsync-on-rewrite to no"}
	}
	return true, nil
}
