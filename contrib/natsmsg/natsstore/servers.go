package natsstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// askSystem is how long servers have to answer on the system account.
const askSystem = 5 * time.Second

// keepers returns the names of the servers that keep the bucket.
func keepers(nc *nats.Conn, i *jetstream.StreamInfo) (names []string) {
	if i.Cluster == nil || i.Cluster.Leader == "" {
		return []string{nc.ConnectedServerName()}
	}
	names = append(names, i.Cluster.Leader)
	for _, r := range i.Cluster.Replicas {
		names = append(names, r.Name)
	}
	return names
}

// jsz is what we read of a server's account of its JetStream.
type jsz struct {
	Server struct {
		Name string `json:"name"`
	} `json:"server"`
	Data struct {
		Config struct {
			SyncAlways bool `json:"sync_always"`
		} `json:"config"`
	} `json:"data"`
}

// lazyServers asks all servers through the system account and returns which of the
// named do not sync every write. One that does not answer is an error: it is not
// known.
func lazyServers(ctx context.Context, system *nats.Conn, names []string) (lazy []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askSystem)
	defer cancel()
	inbox := system.NewRespInbox()
	sub, err := system.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask on the system account: %w", err)
	}
	defer sub.Unsubscribe()
	if err := system.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", inbox, []byte(`{"config":true}`)); err != nil {
		return nil, fmt.Errorf("ask on the system account: %w", err)
	}
	for silent := slices.Clone(names); len(silent) > 0; {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("no answer on the system account about %s: %w", strings.Join(silent, ", "), err)
		}
		var answer jsz
		if json.Unmarshal(m.Data, &answer) != nil {
			continue
		}
		if n := slices.Index(silent, answer.Server.Name); n >= 0 {
			silent = slices.Delete(silent, n, n+1)
			if !answer.Data.Config.SyncAlways {
				lazy = append(lazy, answer.Server.Name)
			}
		}
	}
	return lazy, nil
}
