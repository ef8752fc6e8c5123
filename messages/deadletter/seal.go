package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/seal"
	"github.com/gabion-go/gabion/messages/message"
)

// NewSealer returns an [idempotency.Sealer] that seals with the first of the keys and opens with each. To
// rotate, first give the new key to all processes in the second place, then in the first.
// Take the old one away when no letter is left that was put away before.
//
// It is AES-256-GCM with random nonces, under a key of its own for each letter (HMAC-SHA-256 of
// secret and letter). The error says everything that is wrong with the keys.
// It is for letters alone: what [idempotency.NewSealer] sealed does not open with it.
func NewSealer(keys ...idempotency.SealKey) (idempotency.Sealer, error) {
	all := make([]seal.Key, len(keys))
	for i, k := range keys {
		all[i] = seal.Key(k)
	}
	s, err := seal.New("gabion dead letter 1", all)
	if err != nil {
		return nil, fmt.Errorf("deadletter: sealer: %w", err)
	}
	return s, nil
}

// ErrSealed says that a letter can't be read: its key is not here, it was changed or moved,
// or it is not sealed at all. The letter stays as it is. It is wrapped.
var ErrSealed = errors.New("deadletter: the letter does not open")

// Sealed returns a store that encrypts payloads and the values of headers before the other
// stores them. All else stays readable, so that letters can be listed, found and counted
// without a key: IDs, keys, groups, sources, positions, orders, the names of headers, and the
// texts of failures. An ID is a hash of the payload too, so who reads the store can test
// guesses of a payload.
//
// A letter that does not open is ErrSealed. Take gives it back as one that failed, so that a
// redrive under a wrong key stops by itself. List returns the headers' names without their
// values.
func Sealed(store Store, sealer idempotency.Sealer) Store { return &sealed{store, sealer} }

type sealed struct {
	Store
	sealer idempotency.Sealer
}

// contextOf names the place of a sealed text.
func contextOf(id ID, what string) []byte { return []byte(string(id) + " " + what) }

// headerContext says which header it is: values can't be moved between them.
func headerContext(id ID, i int, name string) []byte {
	return contextOf(id, "header "+strconv.Itoa(i)+" "+name)
}

// Put implements [Store].
func (s *sealed) Put(ctx context.Context, l Letter) error {
	payload, err := s.sealer.Seal(l.Payload, contextOf(l.ID, "payload"))
	headers := make(message.Headers, len(l.Headers))
	for i, h := range l.Headers {
		var value []byte
		if err == nil {
			value, err = s.sealer.Seal([]byte(h.Value), headerContext(l.ID, i, h.Name))
		}
		headers[i] = message.Header{Name: h.Name, Value: string(value)}
	}
	if err != nil {
		return fmt.Errorf("deadletter: seal: %w", err)
	}
	l.Payload, l.Headers = payload, headers
	return s.Store.Put(ctx, l)
}

// open decrypts a letter. One that was dropped has nothing to open.
func (s *sealed) open(l Letter) (Letter, error) {
	if l.State == Dropped && len(l.Payload) == 0 && len(l.Headers) == 0 {
		return l, nil
	}
	payload, err := s.sealer.Open(l.Payload, contextOf(l.ID, "payload"))
	headers := make(message.Headers, len(l.Headers))
	for i, h := range l.Headers {
		var value []byte
		if err == nil {
			value, err = s.sealer.Open([]byte(h.Value), headerContext(l.ID, i, h.Name))
		}
		headers[i] = message.Header{Name: h.Name, Value: string(value)}
	}
	if err != nil {
		return Letter{}, fmt.Errorf("%w: %s: %w", ErrSealed, l.ID, err)
	}
	l.Payload, l.Headers = payload, headers
	return l, nil
}

// Get implements [Store].
func (s *sealed) Get(ctx context.Context, id ID) (Letter, error) {
	l, err := s.Store.Get(ctx, id)
	if err != nil {
		return Letter{}, err
	}
	return s.open(l)
}

// List implements [Store].
func (s *sealed) List(ctx context.Context, q Query, from string, limit int) (Page, error) {
	p, err := s.Store.List(ctx, q, from, limit)
	for i := range p.Letters {
		for j := range p.Letters[i].Headers {
			p.Letters[i].Headers[j].Value = ""
		}
	}
	return p, err
}

// Take implements [Store].
func (s *sealed) Take(ctx context.Context, group string, n int, lease time.Duration) ([]Lease, time.Duration, error) {
	all, again, err := s.Store.Take(ctx, group, n, lease)
	if err != nil {
		return nil, 0, err
	}
	var failed []error
	opened := all[:0]
	for _, l := range all {
		plain, err := s.open(l.Letter)
		if err == nil {
			l.Letter = plain
			opened = append(opened, l)
			continue
		}
		v := Verdict{State: Waiting, Failure: &Failure{At: l.Since, Class: "permanent", Message: err.Error()}}
		failed = append(failed, err, s.Store.Settle(ctx, l, v))
	}
	if len(opened) == 0 && len(failed) > 0 {
		return nil, 0, errors.Join(failed...)
	}
	return opened, again, nil
}
