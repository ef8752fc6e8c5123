package watermill

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	wm "github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/e2e/messages/rabbit"
	"github.com/gabion-go/gabion/internal/testservers"
)

// The topics of the rig.
const (
	orders  = "orders"
	waiting = "orders_waiting" // where messages wait that come again later
	dead    = "orders_dead"
)

// A kind is a broker that the rig can run on.
type kind struct {
	start func(testing.TB) *testservers.Server
	open  func(url string) (*line, error)
	later bool // a copy is sent of what has to wait; else it is held
}

// A line is a connection to a broker.
type line struct {
	wm.Publisher
	subscribe func() (wm.Subscriber, error)
	later     gabionmsg.Later
	topics    []string // where a consumer listens
	closers   []io.Closer
}

// end closes the connection.
func (l *line) end() {
	for _, c := range slices.Backward(l.closers) {
		_ = c.Close()
	}
}

var kinds = map[string]kind{
	"redis streams": {
		start: func(t testing.TB) *testservers.Server { return testservers.StartRedis(t, "--appendonly", "yes") },
		open:  openRedis,
		later: true,
	},
	"postgresql": {
		start: func(t testing.TB) *testservers.Server { return testservers.StartPostgres(t) },
		open:  openPostgres,
	},
	"rabbitmq": {
		start: func(t testing.TB) *testservers.Server { return testservers.StartRabbitMQ(t) },
		open:  openRabbit,
		later: true,
	},
}

func urlOf(s *testservers.Server) string {
	if s.DSN != "" {
		return s.DSN
	}
	return s.Addr
}

func openRedis(url string) (*line, error) {
	client := redis.NewClient(&redis.Options{Addr: url})
	pub, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: client}, nil)
	if err != nil {
		return nil, err
	}
	l := &line{Publisher: pub, topics: []string{orders, waiting}, closers: []io.Closer{pub}}
	l.later = gabionmsg.Republish(pub, waiting)
	l.subscribe = func() (wm.Subscriber, error) {
		return redisstream.NewSubscriber(redisstream.SubscriberConfig{
			Client: redis.NewClient(&redis.Options{Addr: url}), ConsumerGroup: "bank", DisableIndefiniteInitialBlock: true,
			BlockTime: 20 * time.Millisecond, MaxIdleTime: 500 * time.Millisecond, ClaimInterval: 100 * time.Millisecond,
		}, nil)
	}
	return l, nil
}

func openPostgres(url string) (*line, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	schema := wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: 10, GeneratePayloadType: func(string) string { return "BYTEA" }}
	pub, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: schema, AutoInitializeSchema: true}, nil)
	if err != nil {
		return nil, err
	}
	l := &line{Publisher: pub, topics: []string{orders}, closers: []io.Closer{db, pub}}
	l.subscribe = func() (wm.Subscriber, error) {
		return wsql.NewSubscriber(db, wsql.SubscriberConfig{
			ConsumerGroup: "bank", SchemaAdapter: schema, OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
			PollInterval: 20 * time.Millisecond, ResendInterval: time.Millisecond, RetryInterval: 100 * time.Millisecond,
		}, nil)
	}
	return l, nil
}

func openRabbit(url string) (*line, error) {
	pub := rabbit.NewPublisher(url)
	l := &line{Publisher: pub, topics: []string{orders}, closers: []io.Closer{pub}}
	l.later = func(_ context.Context, msg *wm.Message, wait time.Duration) error {
		return pub.PublishAfter(orders, wait, msg)
	}
	l.subscribe = func() (wm.Subscriber, error) { return rabbit.NewSubscriber(url, 4), nil }
	return l, pub.Declare(orders, 50*time.Millisecond)
}

// drain returns how often the messages of a topic are there, by their keys. It asks until it has seen
// keys different keys, and then for what comes within a while.
func (l *line) drain(ctx context.Context, topic string, keys int) (seen map[string]int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	sub, err := l.subscribe()
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	msgs, err := sub.Subscribe(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", topic, err)
	}
	seen = map[string]int{}
	var quiet <-chan time.Time
	for {
		if len(seen) >= keys {
			quiet = time.After(100 * time.Millisecond)
		}
		select {
		case m, open := <-msgs:
			if !open {
				return seen, nil
			}
			seen[keyOf(m)]++
			m.Ack()
		case <-quiet:
			return seen, nil
		}
	}
}
