package natsfleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/bucket"
	"github.com/gabion-go/gabion/fleet"
)

// lastsHeader has for how long a value exists, in nanoseconds. It is missing if that is for ever.
const lastsHeader = "Gabion-Lasts"

// Options say how the bucket is made, or what an existing one has to be like.
type Options struct {
	// Bucket is its name: letters, digits, dash and underscore. Empty means gabion-fleet. It is
	// for this store alone.
	Bucket string

	// Replicas is how many servers keep each value. Zero means one for a new bucket, and as it is
	// for an existing one.
	Replicas int

	// Storage is where values are kept. Zero means in files.
	Storage jetstream.StorageType

	// Existing says that a bucket that is missing is an error, and not made.
	Existing bool
}

const defaultBucket = "gabion-fleet"

// A Store is a [fleet.Store] in one bucket. Make one with [Open]. Safe for concurrent use. It has no goroutine
// but those of batches that are on their way, and no connection of its own.
type Store struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	name    string // of the stream
	subject string // of all keys, up to the key
	put     string // the same as publishes need it
}

var _ fleet.Store = (*Store)(nil)

// Open returns a store in the bucket, which it creates if it is missing. The error names every
// setting of an existing bucket that does not do, or says that the server is too old to tell its time.
func Open(ctx context.Context, js jetstream.JetStream, o Options) (*Store, error) {
	if o.Bucket == "" {
		o.Bucket = defaultBucket
	}
	s, err := open(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("natsfleet: open bucket %q: %w", o.Bucket, err)
	}
	return s, nil
}

func open(ctx context.Context, js jetstream.JetStream, o Options) (*Store, error) {
	if !bucket.Named(o.Bucket) || o.Replicas < 0 {
		return nil, errors.New("the name is of letters, digits, dash and underscore, and no number is negative")
	}
	want := bucket.Config(o.Bucket, "what a fleet shares")
	want.Storage, want.Replicas = o.Storage, max(1, o.Replicas)
	find := bucket.Find
	if o.Existing {
		find = func(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
			return js.Stream(ctx, want.Name)
		}
	}
	stream, err := find(ctx, js, want)
	if err != nil {
		return nil, err
	}
	have := stream.CachedInfo()
	wrong := append(bucket.Conflicts(have.Config, want, o.Replicas),
		bucket.Wrong{Is: have.Config.MaxAge != 0, Text: "its TTL is %v, and what lasts for ever would end by it: set max_age to 0", Args: []any{have.Config.MaxAge}},
		bucket.Wrong{Is: have.TimeStamp.IsZero(), Text: "its server does not tell its time: it is older than 2.11"})
	return &Store{
		js: js, stream: stream, name: want.Name, subject: bucket.Subject(o.Bucket, ""), put: bucket.Prefix(js) + bucket.Subject(o.Bucket, ""),
	}, errors.Join(bucket.Errors(wrong)...)
}

// An entry is what a key has. The zero entry is that of a key without a value.
type entry struct {
	value   []byte
	version uint64
	at      time.Time // by the server's clock
	lasts   time.Duration
}

// alive reports whether it exists at a time of the server.
func (e *entry) alive(now time.Time) bool {
	return e.version != 0 && (e.lasts == 0 || !now.After(e.at.Add(e.lasts)))
}

// load reads a key from the stream's leader. subject is that of the stream.
func (s *Store) load(ctx context.Context, subject string) (entry, error) {
	m, err := s.stream.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return entry{}, nil
	case err != nil:
		return entry{}, fmt.Errorf("read: %w", err)
	}
	return entryOf(m), nil
}

func entryOf(m *jetstream.RawStreamMsg) entry {
	if bucket.Deleted(m.Header) {
		return entry{}
	}
	lasts, err := time.ParseDuration(m.Header.Get(lastsHeader) + "ns")
	if err != nil {
		lasts = 0
	}
	return entry{append([]byte{}, m.Data...), m.Sequence, m.Time, lasts}
}

// errLost says that a key had another version.
var errLost = errors.New("another version")

// unversioned is for puts that compare nothing.
const unversioned = math.MaxUint64

// publish puts a value if the key has the sequence number, and returns its own.
func (s *Store) publish(ctx context.Context, p *fleet.Put, sequence uint64) (uint64, error) {
	if !s.js.Conn().IsConnected() {
		return 0, fmt.Errorf("put: %w", nats.ErrDisconnected) // else it may be kept, and sent after the caller has left
	}
	m := &nats.Msg{Subject: s.put + subjectOf(p.Key), Header: nats.Header{}, Data: p.Value}
	if p.Lasts > 0 {
		m.Header.Set(lastsHeader, fmt.Sprint(int64(p.Lasts)))
	}
	o := []jetstream.PublishOpt{jetstream.WithExpectStream(s.name)}
	if sequence != unversioned {
		o = append(o, jetstream.WithExpectLastSequencePerSubject(sequence))
	}
	ack, err := s.js.PublishMsg(ctx, m, o...)
	if err == nil {
		return ack.Sequence, nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return 0, errLost
	}
	return 0, fmt.Errorf("put: %w", err)
}

// swap puts or deletes what the version allows. Not made is no error.
func (s *Store) swap(ctx context.Context, p *fleet.Put) (version uint64, made bool, err error) {
	if p.Value == nil {
		old, err := s.exists(ctx, p.Key) // for the message of that number may be another key's
		if err != nil || old.version != p.Version || p.Version == 0 {
			return 0, err == nil && old.version == p.Version, err
		}
		err = s.stream.DeleteMsg(ctx, p.Version)
		if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return 0, false, nil // another put the key since, and its message is another
		}
		if err != nil {
			return 0, false, fmt.Errorf("swap: %w", err)
		}
		return 0, true, nil
	}
	if version, err = s.publish(ctx, p, p.Version); errors.Is(err, errLost) && p.Version == 0 {
		version, err = s.takePlace(ctx, p)
	}
	if errors.Is(err, errLost) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("swap: %w", err)
	}
	return version, true, nil
}

// takePlace puts a new key where one is that does not exist any more: a mark of a delete, or what has lasted
// its time.
func (s *Store) takePlace(ctx context.Context, p *fleet.Put) (uint64, error) {
	m, err := s.stream.GetLastMsgForSubject(ctx, s.subject+subjectOf(p.Key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, errLost // it was deleted just now: that was another's turn
	}
	if err != nil {
		return 0, err
	}
	i, err := s.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	if old := entryOf(m); old.alive(i.TimeStamp) {
		return 0, errLost
	}
	return s.publish(ctx, p, m.Sequence)
}

// exists is what a key has now.
func (s *Store) exists(ctx context.Context, key string) (entry, error) {
	e, err := s.load(ctx, s.subject+subjectOf(key))
	if err != nil || e.version == 0 {
		return entry{}, err
	}
	i, err := s.stream.Info(ctx)
	if err != nil {
		return entry{}, fmt.Errorf("ask for the time: %w", err)
	}
	if !e.alive(i.TimeStamp) {
		return entry{}, nil
	}
	return e, nil
}
