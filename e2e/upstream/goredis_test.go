//go:build upstream

package upstream

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testservers"
)

const redis = "github.com/redis/go-redis/v9"

// goRedis is the specs of go-redis for one server without modules. Every client that they make
// has gabionredis's hook. The specs of clusters, rings, sentinels, TLS and of modules need servers
// that are not there.
var goRedis = Suite{
	Name: "go-redis",
	Version: func(t *testing.T) string {
		version, _ := module(t, filepath.Join(root(t), "contrib", "gabionredis"), redis)
		return version
	},
	Run: specs("go-redis", []string{
		"redis_test.go", "commands_test.go", "pipeline_test.go", "tx_test.go", "tx_unwatch_test.go", "pool_test.go",
		"iterator_test.go", "error_test.go", "pubsub_test.go", "bitmap_commands_test.go", "command_test.go", "monitor_test.go",
		"acl_commands_test.go", "race_test.go", "script_server_sha_integration_test.go", "autopipeline_test.go", "csc_e2e_test.go",
	}, []string{"cluster races"}),
	Env: func(t *testing.T) []string {
		addr := testservers.Redis(t, "--enable-debug-command", "yes")
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		return []string{"UPSTREAM_REDIS_PORT=" + port, "REDIS_VERSION=" + redisVersion(t, addr)}
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
		change("options.go", `opt.Addr = "localhost:6379"`, `opt.Addr = "localhost:" + port`)
		write(t, filepath.Join(dir, "zz_gabion.go"), redisSeam)
		if with {
			write(t, filepath.Join(dir, "zz_gabion_test.go"), redisBetween)
			require(t, dir, ".", "contrib/gabionredis")
		}
		return dir, []string{"-trimpath"} // so that the second build takes what the first one made
	},
}

// redisVersion is that of a server, such as 7.0. Valkey tells the one that it is compatible with.
func redisVersion(t *testing.T, addr string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(c, "INFO server\r\n")
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "redis_version:"); ok {
			return strings.Join(strings.SplitN(v, ".", 3)[:2], ".")
		}
	}
	t.Fatalf("%s does not tell its version", addr)
	return ""
}

const redisSeam = `package redis

import "os"

// Between is called for every client.
var Between = func(*Client) {}

var port = os.Getenv("UPSTREAM_REDIS_PORT")
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
