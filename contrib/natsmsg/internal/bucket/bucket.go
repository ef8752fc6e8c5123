// Package bucket makes and checks the key-value buckets of this module's stores. They are those of NATS,
// except for two things: they are read from their leader only, and what has expired is deleted rather than marked as
// deleted.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Stream is the name of the bucket's stream.
func Stream(bucket string) string { return "KV_" + bucket }

// Subject is the subject of a key.
func Subject(bucket, key string) string { return "$KV." + bucket + "." + key }

// Prefix is what publishes need in front to reach the JetStream of another domain
// or account, as the key-value API of nats.go has it.
func Prefix(js jetstream.JetStream) string {
	o := js.Options()
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix == "" || o.APIPrefix == jetstream.DefaultAPIPrefix:
		return ""
	}
	return strings.TrimSuffix(o.APIPrefix, ".") + "."
}

// Deleted reports whether a message stands for the absence of a value: an operator
// deleted the key, or the server marks what it removed.
func Deleted(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// Named reports whether a bucket may have the name: letters, digits, dash and underscore.
func Named(bucket string) bool { return bucket != "" && !strings.ContainsFunc(bucket, odd) }

func odd(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// Config is that of a new bucket: a store changes what it has to say about.
func Config(name, description string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: Stream(name), Description: description, Subjects: []string{Subject(name, ">")},
		MaxMsgsPerSubject: 1, Replicas: 1, Discard: jetstream.DiscardNew, AllowRollup: true,
		MaxMsgs: -1, MaxConsumers: -1, MaxMsgSize: -1, MaxBytes: -1,
	}
}

// Find finds a bucket or makes it. What it finds may have another configuration.
func Find(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made by another program just now, with other options
			stream, err = js.Stream(ctx, want.Name)
		}
	}
	return stream, err
}

// A Wrong is something about a bucket that must not be, and the text of the error.
type Wrong struct {
	Is   bool
	Text string
	Args []any
}

// Errors are those of what is wrong.
func Errors(all []Wrong) (found []error) {
	for _, w := range all {
		if w.Is {
			found = append(found, fmt.Errorf(w.Text, w.Args...))
		}
	}
	return found
}

// Conflicts are what may be wrong with any bucket. Replicas are how many it has to have; zero means any
// number.
func Conflicts(have, want jetstream.StreamConfig, replicas int) []Wrong {
	bounded := have.MaxMsgs > 0 || have.MaxBytes > 0
	return []Wrong{
		{!slices.Equal(have.Subjects, want.Subjects) || have.Mirror != nil || len(have.Sources) > 0 || have.SubjectTransform != nil,
			"it has subjects %q, or takes messages from another stream: it is no bucket of its own", []any{have.Subjects}},
		{have.MaxMsgsPerSubject != 1, "its history is %d: set max_msgs_per_subject to 1", []any{have.MaxMsgsPerSubject}},
		{have.Retention != jetstream.LimitsPolicy, "its retention policy is %v: it would forget what was read", []any{have.Retention}},
		{bounded && have.Discard != jetstream.DiscardNew, "it is bounded and discards old records when it is full: set discard to new", nil},
		{have.AllowDirect, "it allows direct reads, which may be stale: set allow_direct to false", nil},
		{have.DenyDelete, "it denies deletes, so that nothing can be swept: make a new one", nil},
		{have.NoAck, "it does not acknowledge: set no_ack to false", nil},
		{have.PersistMode == jetstream.AsyncPersistMode, "it acknowledges before it writes: its persist_mode has to be the default", nil},
		{have.Storage != want.Storage, "it keeps records in %v storage, asked for %v", []any{have.Storage, want.Storage}},
		{replicas != 0 && have.Replicas != replicas, "it has %d replicas, asked for %d", []any{have.Replicas, replicas}},
	}
}
