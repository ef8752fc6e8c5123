package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/bucket"
	"github.com/gabion-go/gabion/idempotency"
)

const (
	defaultTTL  = 25 * time.Hour  // a Handler's retention of a day, and leases of up to an hour
	defaultSkew = 2 * time.Second // between servers whose clocks are kept by NTP
	maxBody     = 256 << 10       // a quarter of the payload that servers take by default
	room        = 96 << 10        // what a message has besides the body: 64 KiB of recovery points, headers kept and the message's own
	dedupWindow = 2 * time.Minute // JetStream's default; this store publishes without message ids
)

// Options say how the bucket is made, or what an existing one has to be like.
type Options struct {
	// Bucket is its name: letters, digits, dash and underscore. It is for this store
	// alone.
	Bucket string

	// Replicas is how many servers keep each record. Zero means one for a new bucket,
	// and as it is for an existing one.
	Replicas int

	// TTL is the age since its last write at which the bucket forgets a record. It has
	// to exceed lease and retention of every claim together. Zero means 25 hours for
	// a new bucket, and as it is for an existing one.
	TTL time.Duration

	// Storage is where records are kept. Zero means in files.
	Storage jetstream.StorageType

	// MaxBytes bounds the bucket. A full one refuses claims, and results that are
	// larger than the claim they replace, with idempotency.ErrFull. Zero means no
	// bound. It is not compared with an existing bucket's.
	MaxBytes int64

	// SyncAlways declares that every server that keeps the bucket has
	// sync_interval: always. A program that embeds the server has it in the server's
	// Options.SyncAlways.
	SyncAlways bool

	// System is a connection of the system account, through which Open asks the
	// servers for that setting. Nil means that the declaration counts.
	System *nats.Conn

	// Skew is the most by which clocks of the bucket's servers differ. Lost runs are
	// taken over, and expired records forgotten, that much later. Zero means two
	// seconds if there are several replicas and nothing if there is one; negative
	// means nothing.
	Skew time.Duration
}

// Open returns a store in the bucket, which it creates if it is missing. The
// error names every setting of an existing bucket that does not do.
func Open(ctx context.Context, js jetstream.JetStream, o Options) (*Store, error) {
	s, err := open(ctx, js, o, monotonic())
	if err != nil {
		return nil, fmt.Errorf("natsstore: open bucket %q: %w", o.Bucket, err)
	}
	return s, nil
}

func open(ctx context.Context, js jetstream.JetStream, o Options, read func() reading) (*Store, error) {
	stream, err := find(ctx, js, o)
	if err != nil {
		return nil, err
	}
	s := &Store{
		js: js, stream: stream, name: bucket.Stream(o.Bucket), subject: bucket.Subject(o.Bucket, ""), put: bucket.Prefix(js) + bucket.Subject(o.Bucket, ""),
		clock: serverClock{read: read, ask: info(stream)}, held: map[idempotency.ID]held{},
	}
	if err := s.clock.start(ctx); err != nil {
		return nil, err
	}
	i := stream.CachedInfo()
	if s.skew = max(0, o.Skew); o.Skew == 0 && i.Config.Replicas > 1 {
		s.skew = defaultSkew
	}
	most := most(js.Conn(), i.Config)
	if most <= room {
		return nil, fmt.Errorf("it takes values of at most %d bytes, and a record may have %d besides its body: raise max_payload or the bucket's max_msg_size", most, room)
	}
	s.caps = idempotency.Caps{ServerClock: i.Config.Replicas == 1, MaxValue: min(maxBody, most-room)}
	return s, s.durability(ctx, o, i)
}

// find finds the stream or makes it.
func find(ctx context.Context, js jetstream.JetStream, o Options) (jetstream.Stream, error) {
	if !bucket.Named(o.Bucket) || o.Replicas < 0 || o.TTL < 0 || o.MaxBytes < 0 {
		return nil, errors.New("the name is of letters, digits, dash and underscore, and no number is negative")
	}
	stream, err := bucket.Find(ctx, js, config(o))
	if err != nil {
		return nil, err
	}
	return stream, errors.Join(conflicts(stream.CachedInfo().Config, o)...)
}

func config(o Options) jetstream.StreamConfig {
	ttl := o.TTL
	if ttl == 0 {
		ttl = defaultTTL
	}
	c := bucket.Config(o.Bucket, "idempotency records")
	c.MaxAge, c.Storage, c.Replicas, c.Duplicates = ttl, o.Storage, max(1, o.Replicas), min(dedupWindow, ttl)
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	return c
}

// conflicts returns what is wrong with a bucket.
func conflicts(have jetstream.StreamConfig, o Options) []error {
	return bucket.Errors(append(bucket.Conflicts(have, config(o), o.Replicas),
		bucket.Wrong{Is: o.TTL != 0 && have.MaxAge != o.TTL, Text: "its TTL is %v, asked for %v", Args: []any{have.MaxAge, o.TTL}}))
}

// most is the most bytes that the server takes as one message of the bucket.
func most(nc *nats.Conn, c jetstream.StreamConfig) int {
	most := int(nc.MaxPayload())
	if size := int(c.MaxMsgSize); size > 0 {
		most = min(most, size)
	}
	return most
}

// durability finds out what is lost when machines fail, and fails if the operator's
// declaration is wrong.
func (s *Store) durability(ctx context.Context, o Options, i *jetstream.StreamInfo) error {
	synced := o.SyncAlways
	why := "its servers are not known to"
	if o.System != nil {
		lazy, err := lazyServers(ctx, o.System, keepers(s.js.Conn(), i))
		if err != nil {
			return err
		}
		if len(lazy) > 0 && o.SyncAlways {
			return fmt.Errorf("SyncAlways is declared, and these servers do not sync every write: %s", strings.Join(lazy, ", "))
		}
		synced, why = len(lazy) == 0, strings.Join(lazy, ", ")+" do not"
	}
	files := i.Config.Storage == jetstream.FileStorage
	s.caps.Durable = files && synced
	for _, w := range []struct {
		weak bool
		text string
	}{
		{!files, "keeps records in memory, so they are gone when its servers restart: make one with file storage"},
		{files && !synced, why + " sync every write, so a power cut may take acknowledged records with it and keys run again: " +
			"set sync_interval: always on the servers, and Options.SyncAlways"},
		{i.Cluster != nil && i.Cluster.Name != "" && i.Config.Replicas == 1, "has one replica in a cluster, so its records are gone with that server's disk: make it three"},
		{s.js.Conn().Opts.ReconnectBufSize > 0, "is reached through a connection that sends later what was published while it was down, " +
			"so keys may be left with an unknown outcome: connect with nats.ReconnectBufSize(-1)"},
	} {
		if w.weak {
			s.caps.Warnings = append(s.caps.Warnings, fmt.Sprintf("NATS bucket %s: %s", o.Bucket, w.text))
		}
	}
	return nil
}
