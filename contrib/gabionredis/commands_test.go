package gabionredis

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/internal/testservers"
)

// The server's own word on its commands: what is taken to read does not write, and what can
// block is known.
func TestTheTableAgreesWithTheServer(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: testservers.Redis(t)})
	defer c.Close()
	commands, err := c.Command(t.Context()).Result()
	if err != nil || len(commands) < 200 {
		t.Fatalf("%d commands, %v", len(commands), err)
	}
	for name, info := range commands {
		name = strings.ToLower(name)
		writes, blocks := slices.Contains(info.Flags, "write"), slices.Contains(info.Flags, "blocking")
		switch k := kinds[name]; {
		case k == reads && writes:
			t.Errorf("%s writes", name)
		case blocks && k != waits && k != waitsIfTold:
			t.Errorf("%s blocks", name)
		case info.ReadOnly && k == counts && !strings.Contains(name, "|"):
			t.Logf("%s only reads, and is not in the table", name)
		}
	}
}
