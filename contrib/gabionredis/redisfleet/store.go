package redisfleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/fleet"
)

// Options are how a [Store] works. The zero value is sound.
type Options struct {
	// Prefix begins the name of each hash, which ends with the fleet's. Empty means
	// "gabion:fleet:". All members need the same.
	Prefix string
}

const defaultPrefix = "gabion:fleet:"

// A Store is a [fleet.Store] on a Redis server or cluster. Make one with [New]. Safe for
// concurrent use. It holds nothing that must be closed; the client is the caller's.
type Store struct {
	client redis.UniversalClient
	prefix string
}

var _ fleet.Store = (*Store)(nil)

// New returns a store that uses the client. It asks the server nothing. The error says that the
// client is a Ring.
func New(client redis.UniversalClient, o Options) (*Store, error) {
	if _, ring := client.(*redis.Ring); ring {
		return nil, errors.New("redisfleet: a Ring sends keys to another server when theirs is down, and there every share would be granted again: use a cluster")
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	return &Store{client: client, prefix: o.Prefix}, nil
}

// Do implements [fleet.Store]. It is atomic. All keys of a batch have to be of one fleet: the same up
// to their first slash.
func (s *Store) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	of, err := fleetOf(&b)
	if err != nil {
		return fleet.Result{}, err
	}
	reply, err := script.Run(ctx, s.client, []string{s.prefix + of}, arguments(b)...).Slice()
	if err != nil {
		return fleet.Result{}, fmt.Errorf("redisfleet: %w", err)
	}
	return result(reply)
}

var errFleet = errors.New("redisfleet: the keys of a batch are not of one fleet: each is its name, a slash and more")

// fleetOf returns what is before the first slash of all keys, and nothing if there are none.
func fleetOf(b *fleet.Batch) (name string, err error) {
	var keys []string
	if b.Swap != nil {
		keys = append(keys, b.Swap.Key)
	}
	for i := range b.Puts {
		keys = append(keys, b.Puts[i].Key)
	}
	if keys = append(keys, b.Get...); b.List != "" {
		keys = append(keys, b.List)
	}
	for _, key := range keys {
		of, _, is := strings.Cut(key, "/")
		if !is || of == "" || name != "" && of != name {
			return "", errFleet
		}
		name = of
	}
	return name, nil
}

// arguments are the batch as the script reads it. The number by which it is known when it comes again is not
// that of any other batch, but for chance.
func arguments(b fleet.Batch) (args []any) {
	args = append(args, fmt.Sprintf("%0*x", digits, rand.Uint64()))
	if b.Swap == nil {
		args = append(args, 0)
	} else {
		args = append(args, 1)
		args = append(args, put(b.Swap)...)
		args = append(args, fmt.Sprintf("%0*d", digits, b.Swap.Version))
	}
	args = append(args, len(b.Puts))
	for i := range b.Puts {
		args = append(args, put(&b.Puts[i])...)
	}
	args = append(args, len(b.Get))
	for _, key := range b.Get {
		args = append(args, key)
	}
	return append(args, b.List)
}

func put(p *fleet.Put) []any {
	keep := 1
	if p.Value == nil {
		keep = 0
	}
	lasts := (max(0, p.Lasts) + time.Microsecond - 1) / time.Microsecond
	return []any{p.Key, keep, int64(lasts), p.Value}
}

var errReply = errors.New("redisfleet: the script did not answer as it does")

func result(reply []any) (r fleet.Result, err error) {
	if len(reply) < 2 || (len(reply)-2)%3 != 0 {
		return r, errReply
	}
	text, _ := reply[0].(string)
	micros, err := strconv.ParseInt(text, 10, 64)
	swapped, ok := reply[1].(int64)
	if err != nil || !ok {
		return r, errReply
	}
	r = fleet.Result{Now: time.UnixMicro(micros), Swapped: swapped > 0, Items: make(map[string]fleet.Item, len(reply)/3)}
	for i := 2; i < len(reply); i += 3 {
		key, is := reply[i].(string)
		head, has := reply[i+1].(string)
		value, full := reply[i+2].(string)
		version, err := strconv.ParseUint(strings.TrimLeft(head, "0"), 10, 64)
		if !is || !has || !full || err != nil {
			return fleet.Result{}, errReply
		}
		r.Items[key] = fleet.Item{Value: []byte(value), Version: version}
	}
	return r, nil
}
