// Package seal encrypts what stores keep, with keys that rotate.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
)

// A Key is a secret and its name. The zero value means no key.
type Key struct {
	Name   string // is stored with what the key seals, to find it again; 1 to 255 bytes
	Secret []byte // 32 random bytes or more; not a password
}

// A Sealer seals with the first of its keys and opens with each. Make one with [New]. Safe
// for concurrent use.
type Sealer struct {
	mark  string
	first string
	keys  map[string][]byte
}

// New returns a Sealer for what the mark names. What was sealed for another does not open.
// The error says everything that is wrong with the keys.
func New(mark string, keys []Key) (*Sealer, error) {
	s := &Sealer{mark: mark, keys: map[string][]byte{}}
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
		return nil, err
	}
	s.first = keys[0].Name
	return s, nil
}

// version is the first byte of what is sealed; the length of the key's name and the name
// follow, then what the AEAD makes.
const version = 1

// ErrNot says that something was never sealed.
var ErrNot = errors.New("it is not sealed")

// Seal returns the text sealed for its context, without which it does not open.
func (s *Sealer) Seal(text, context []byte) ([]byte, error) {
	aead, err := s.aead(s.first, context)
	if err != nil {
		return nil, err
	}
	out := append([]byte{version, byte(len(s.first))}, s.first...)
	return aead.Seal(out, nil, text, context), nil //nolint:gosec // the AEAD draws a nonce of its own (NewGCMWithRandomNonce)
}

// Open returns the text that was sealed for that context.
func (s *Sealer) Open(sealed, context []byte) ([]byte, error) {
	if len(sealed) < 2 || sealed[0] != version || len(sealed) < 2+int(sealed[1]) {
		return nil, ErrNot
	}
	end := 2 + int(sealed[1])
	name := string(sealed[2:end])
	if _, found := s.keys[name]; !found {
		return nil, fmt.Errorf("there is no key %q", name)
	}
	aead, err := s.aead(name, context)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, sealed[end:], context)
}

// aead is AES-256-GCM with random nonces under a key of its own for each context, so that no
// number of texts wears the secret out.
func (s *Sealer) aead(key string, context []byte) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, s.keys[key])
	mac.Write([]byte(s.mark + "\x00"))
	mac.Write(context)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
