package operator

import (
	"fmt"
	"os"
	"os/user"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Redis returns a client of the server of a URL, which it does not ask anything. The caller closes it.
func Redis(url string) (*redis.Client, error) {
	redis.SetLogger(&logging.VoidLogger{}) // what it has to say, its errors say too
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, Call(err)
	}
	o.ContextTimeoutEnabled = true
	return redis.NewClient(o), nil
}

// NATS connects to the server of a URL, under a name that the server shows. The caller closes the connection.
func NATS(url, name string, more ...nats.Option) (jetstream.JetStream, error) {
	nc, err := nats.Connect(url, append([]nats.Option{nats.Name(name), nats.ReconnectBufSize(-1)}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return js, nil
}

// Who is the name under which something is done: the given one, or else the user's and the machine's.
func Who(given string) string {
	if given != "" {
		return given
	}
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
