package idempotency

import (
	"fmt"

	"github.com/gabion-go/gabion/internal/seal"
)

// A SealKey is a key of a [Sealer]. The zero value is invalid.
type SealKey struct {
	Name   string // is stored with what the key seals, to find it again; 1 to 255 bytes
	Secret []byte // 32 random bytes or more; not a password
}

// NewSealer returns a Sealer that seals with the first of the keys and opens with each. To
// rotate, first give the new key to all processes in the second place, then in the first;
// take the old one away when a retention has passed.
//
// It is AES-256-GCM with random nonces, under a key of its own for each context (HMAC-SHA-256
// of secret and context), so that no number of records wears the secret out. Safe for
// concurrent use. It returns everything that is wrong with the keys.
func NewSealer(keys ...SealKey) (Sealer, error) {
	all := make([]seal.Key, len(keys))
	for i, k := range keys {
		all[i] = seal.Key(k)
	}
	s, err := seal.New("gabion sealed 1", all)
	if err != nil {
		return nil, fmt.Errorf("idempotency: sealer: %w", err)
	}
	return s, nil
}
