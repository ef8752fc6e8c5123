package gabion

import (
	"context"
	"errors"
	"fmt"

	"github.com/gabion-go/gabion/internal/idemkey"
)

// A KeyStore keeps the idempotency keys of intents where the intents themselves are
// kept, so that an operation that is run again after a crash has the key it had. A
// table of two columns is one:
//
//	CREATE TABLE keys (intent TEXT PRIMARY KEY, idempotency_key TEXT NOT NULL)
//
// It must be safe for concurrent use, also by several processes.
type KeyStore interface {
	// LoadKey returns the key of an intent, or "" if it has none. It must see every
	// InsertKey that returned, so a replica that lags is no place to look.
	LoadKey(ctx context.Context, intent string) (string, error)

	// InsertKey stores the key of an intent that has none, and leaves an intent that
	// has one as it is, which is no error: INSERT … ON CONFLICT DO NOTHING. It
	// returns when the key is durable.
	InsertKey(ctx context.Context, intent, key string) error
}

// KeyFor returns the idempotency key of an intent, such as "charge order 7": the one
// that is stored, or else a new one that is stored by now. Of several that ask at
// once all get the same. Nothing may be sent without it, so after an error nothing
// was, and asking again is safe.
//
// Resumed says that the key was there before: an earlier run may have sent the
// request. What this run learns does not say that nothing happened then, so it must
// not turn to another system instead (see [Fallback]).
func KeyFor(ctx context.Context, s KeyStore, intent string) (key string, resumed bool, err error) {
	if s == nil || intent == "" {
		return "", false, errNoIntent
	}
	if key, err = loadKey(ctx, s, intent); err != nil || key != "" {
		return key, key != "", err
	}
	made := NewKey()
	if err := s.InsertKey(ctx, intent, made); err != nil {
		return "", false, fmt.Errorf("gabion: storing an idempotency key: %w", err)
	}
	// Another may have stored one first: the key that is stored is the one that counts.
	switch key, err = loadKey(ctx, s, intent); {
	case err != nil:
		return "", false, err
	case key == "":
		return "", false, errKeyLost
	}
	return key, key != made, nil
}

func loadKey(ctx context.Context, s KeyStore, intent string) (string, error) {
	key, err := s.LoadKey(ctx, intent)
	if err != nil {
		return "", fmt.Errorf("gabion: loading an idempotency key: %w", err)
	}
	if _, ok := idemkey.Parse(key); key != "" && !ok {
		return "", fmt.Errorf("gabion: the key store holds a key that can't be used: %w", KeyMalformed)
	}
	return key, nil
}

var (
	errNoIntent = errors.New("gabion: a key needs a store and the name of its intent")
	errKeyLost  = errors.New("gabion: the key store does not have the key that it has just stored")
)
