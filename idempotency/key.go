package idempotency

import (
	"encoding/hex"
	"errors"

	"github.com/gabion-go/gabion/internal/idemkey"
)

var errKey = errors.New("idempotency: malformed key: it is 1 to 255 visible ASCII characters, bare or as one quoted string")

// ParseKey reads the value of an Idempotency-Key header: the quoted string that the IETF
// draft asks for (RFC 8941), or the bare characters that most clients send. Both forms of
// the same characters are the same key. The parameters of a quoted key ("abc";v=1) are
// ignored. The error does not repeat the value.
func ParseKey(value string) (string, error) {
	key, ok := idemkey.Parse(value)
	if !ok {
		return "", errKey
	}
	return key, nil
}

// An ID names a record: a hash of scope and key, so that stores hold neither, every
// name has the same length, and no scope can reach into another.
type ID [32]byte

// IDOf returns the ID of a key within a scope.
func IDOf(scope, key string) ID { return idemkey.ID(scope, key) }

// String returns the first eight hex digits: enough to follow a key through logs,
// too little to find it.
func (id ID) String() string { return hex.EncodeToString(id[:4]) }

// Hex returns the ID in full, as [ParseID] reads it. It is the name of a record. It does not
// reveal the key, but a guess of the key can be tested against it.
func (id ID) Hex() string { return hex.EncodeToString(id[:]) }

// ParseID reads the 64 hex digits of [ID.Hex].
func ParseID(text string) (id ID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, errors.New("idempotency: a record's ID is 64 hex digits")
	}
	return ID(b), nil
}
