package idempotency

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
)

// A SealKey is a key of a [Sealer]. The zero value is none.
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
	s := sealer{keys: map[string][]byte{}}
	var all []error
	for i, k := range keys {
		switch {
		case k.Name == "" || len(k.Name) > 255:
			all = append(all, fmt.Errorf("key %d: its name has %d bytes, not 1 to 255", i+1, len(k.Name)))
		case len(k.Secret) < 32:
			all = append(all, fmt.Errorf("key %q: its secret has %d bytes, less than 32", k.Name, len(k.Secret)))
		case s.keys[k.Name] != nil:
			all = append(all, fmt.Errorf("key %q: there are two", k.Name))
		}
		s.keys[k.Name] = append([]byte(nil), k.Secret...)
	}
	if len(keys) == 0 {
		all = append(all, errors.New("there is no key"))
	}
	if err := errors.Join(all...); err != nil {
		return nil, fmt.Errorf("idempotency: sealer: %w", err)
	}
	s.first = keys[0].Name
	return s, nil
}

type sealer struct {
	first string
	keys  map[string][]byte
}

// sealVersion is the first byte of what is sealed; the length of the key's name and the
// name follow, then what the AEAD makes.
const sealVersion = 1

// Seal implements [Sealer].
func (s sealer) Seal(text, context []byte) ([]byte, error) {
	aead, err := aeadOf(s.keys[s.first], context)
	if err != nil {
		return nil, err
	}
	out := append([]byte{sealVersion, byte(len(s.first))}, s.first...)
	return aead.Seal(out, nil, text, context), nil //nolint:gosec // the AEAD draws a nonce of its own (NewGCMWithRandomNonce)
}

// Open implements [Sealer].
func (s sealer) Open(sealed, context []byte) ([]byte, error) {
	if len(sealed) < 2 || sealed[0] != sealVersion || len(sealed) < 2+int(sealed[1]) {
		return nil, errNotSealed
	}
	end := 2 + int(sealed[1])
	name := string(sealed[2:end])
	secret, found := s.keys[name]
	if !found {
		return nil, fmt.Errorf("there is no key %q", name)
	}
	aead, err := aeadOf(secret, context)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, sealed[end:], context)
}

func aeadOf(secret, context []byte) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("gabion sealed 1\x00"))
	mac.Write(context)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
