package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	stream, err := bucket(ctx, js, o)
	if err != nil {
		return nil, err
	}
	s := &Store{
		js: js, stream: stream, name: streamName(o.Bucket), subject: subjectOf(o.Bucket, ""), put: prefix(js) + subjectOf(o.Bucket, ""),
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

func streamName(bucket string) string { return "KV_" + bucket }

func subjectOf(bucket, key string) string { return "$KV." + bucket + "." + key }

// prefix is what publishes need in front to reach the JetStream of another domain
// or account, as the key-value API of nats.go has it.
func prefix(js jetstream.JetStream) string {
	o := js.Options()
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix == "" || o.APIPrefix == jetstream.DefaultAPIPrefix:
		return ""
	}
	return strings.TrimSuffix(o.APIPrefix, ".") + "."
}

// bucket finds the stream or makes it.
func bucket(ctx context.Context, js jetstream.JetStream, o Options) (jetstream.Stream, error) {
	if o.Bucket == "" || strings.ContainsFunc(o.Bucket, notBucket) || o.Replicas < 0 || o.TTL < 0 || o.MaxBytes < 0 {
		return nil, errors.New("the name is of letters, digits, dash and underscore, and no number is negative")
	}
	stream, err := js.Stream(ctx, streamName(o.Bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, config(o))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made by another program just now, with other options
			stream, err = js.Stream(ctx, streamName(o.Bucket))
		}
	}
	if err != nil {
		return nil, err
	}
	return stream, errors.Join(conflicts(stream.CachedInfo().Config, o)...)
}

func notBucket(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// config is that of a key-value bucket, except for two things: it is read from
// its leader only, and expired records are deleted rather than marked as deleted.
func config(o Options) jetstream.StreamConfig {
	ttl := o.TTL
	if ttl == 0 {
		ttl = defaultTTL
	}
	c := jetstream.StreamConfig{
		Name: streamName(o.Bucket), Description: "idempotency records", Subjects: []string{subjectOf(o.Bucket, ">")},
		MaxMsgsPerSubject: 1, MaxAge: ttl, Storage: o.Storage, Replicas: max(1, o.Replicas),
		Discard: jetstream.DiscardNew, Duplicates: min(dedupWindow, ttl), AllowRollup: true,
		MaxMsgs: -1, MaxConsumers: -1, MaxMsgSize: -1, MaxBytes: -1,
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	return c
}

// conflicts returns what is wrong with a bucket.
func conflicts(have jetstream.StreamConfig, o Options) (found []error) {
	want := config(o)
	bounded := have.MaxMsgs > 0 || have.MaxBytes > 0
	for _, c := range []struct {
		wrong bool
		text  string
		args  []any
	}{
		{!slices.Equal(have.Subjects, want.Subjects) || have.Mirror != nil || len(have.Sources) > 0 || have.SubjectTransform != nil,
			"it has subjects %q, or takes messages from another stream: it is no bucket of its own", []any{have.Subjects}},
		{have.MaxMsgsPerSubject != 1, "its history is %d: set max_msgs_per_subject to 1", []any{have.MaxMsgsPerSubject}},
		{have.Retention != jetstream.LimitsPolicy, "its retention policy is %v: it would forget what was read", []any{have.Retention}},
		{bounded && have.Discard != jetstream.DiscardNew, "it is bounded and discards old records when it is full: set discard to new", nil},
		{have.AllowDirect, "it allows direct reads, which may be stale: set allow_direct to false", nil},
		{have.DenyDelete, "it denies deletes, so that nothing can be swept: make a new one", nil},
		{have.NoAck, "it does not acknowledge: set no_ack to false", nil},
		{have.PersistMode == jetstream.AsyncPersistMode, "it acknowledges before it writes: its persist_mode has to be the default", nil},
		{have.Storage != o.Storage, "it keeps records in %v storage, asked for %v", []any{have.Storage, o.Storage}},
		{o.Replicas != 0 && have.Replicas != o.Replicas, "it has %d replicas, asked for %d", []any{have.Replicas, o.Replicas}},
		{o.TTL != 0 && have.MaxAge != o.TTL, "its TTL is %v, asked for %v", []any{have.MaxAge, o.TTL}},
	} {
		if c.wrong {
			found = append(found, fmt.Errorf(c.text, c.args...))
		}
	}
	return found
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
