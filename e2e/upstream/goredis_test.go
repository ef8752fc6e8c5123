//go:build upstream

package upstream

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testservers"
)

const redis = "github.com/redis/go-redis/v9"

// goRedis is the specs of go-redis for one server without modules. Every client that it makes
// gets gabionredis's hook. Specs of clusters, rings, sentinels and of Redis Stack need servers
// that are not there; those of the client-side cache and of automatic pipelines go round hooks.
var goRedis = Suite{
	Name: "go-redis",
	Version: func(t *testing.T) string {
		version, _ := module(t, filepath.Join(root(t), "contrib", "gabionredis"), redis)
		return version
	},
	Run: specs("redis_test.go", "commands_test.go", "pipeline_test.go", "tx_test.go", "pool_test.go",
		"iterator_test.go", "error_test.go", "pubsub_test.go", "bitmap_commands_test.go", "command_test.go"),
	Env: func(t *testing.T) []string {
		_, port, err := net.SplitHostPort(testservers.Redis(t))
		if err != nil {
			t.Fatal(err)
		}
		return []string{"UPSTREAM_REDIS_PORT=" + port, "REDIS_VERSION=" + redisVersion(t)}
	},
	Write: func(t *testing.T, dir string, with bool) (string, []string) {
		adapter := filepath.Join(root(t), "contrib", "gabionredis")
		_, from := module(t, adapter, redis)
		copyModule(t, from, dir)
		change := func(name string, pairs ...string) {
			file := filepath.Join(dir, name)
			text := read(t, file)
			for i := 0; i < len(pairs); i += 2 {
				text = swap(t, text, pairs[i], pairs[i+1])
			}
			write(t, file, text)
		}
		change("main_test.go",
			`redisStackPort = "6379"`, `redisStackPort = os.Getenv("UPSTREAM_REDIS_PORT")`,
			"if !RECluster {\n\t\tringShard1,", "if false {\n\t\tringShard1,",
			"if !RECluster {\n\t\tExpect(cluster.Close())", "if false {\n\t\tExpect(cluster.Close())")
		change("redis.go", "\tbuilt = true\n\treturn &c\n", "\tbuilt = true\n\tBetween(&c)\n\treturn &c\n")
		write(t, filepath.Join(dir, "zz_gabion.go"), redisSeam)
		if with {
			write(t, filepath.Join(dir, "zz_gabion_test.go"), redisBetween)
			require(t, dir, ".", "contrib/gabionredis")
		}
		return dir, []string{"-trimpath"} // so that the second build takes what the first one made
	},
}

// redisVersion is that of the server that is installed, such as 7.0.
func redisVersion(t *testing.T) string {
	t.Helper()
	for _, f := range strings.Fields(output(t, ".", "redis-server", "--version")) {
		if v, ok := strings.CutPrefix(f, "v="); ok {
			parts := strings.SplitN(v, ".", 3)
			return parts[0] + "." + parts[1]
		}
	}
	t.Fatal("redis-server does not tell its version")
	return ""
}

const redisSeam = `package redis

// Between is called for every client.
var Between = func(*Client) {}
`

// redisBetween puts gabion in. The policy retries nothing and bounds nothing. A client that
// gabionredis.Use refuses, since it repeats by itself or honours no deadline, stays without.
const redisBetween = `package redis_test

import (
	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionredis"
	"github.com/gabion-go/gabion/policy"
)

func init() {
	redis.Between = func(c *redis.Client) {
		_ = gabionredis.Use(c, gabion.New("go-redis", policy.Policy{
			Timeout:  policy.Timeout{Attempt: policy.Off, Call: policy.Off},
			Retry:    policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}},
			Breaker:  policy.Breaker{Off: true},
			Bulkhead: policy.Bulkhead{Off: true},
		}))
	}
}
`
