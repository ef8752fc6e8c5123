package gabion

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// NewKey makes an idempotency key: a UUID of version 7 (RFC 9562), whose first 48
// bits are the time in milliseconds, so that a store's index stays clustered, and
// whose other 74 are random. Make one per intent, above every retry, and store it
// with the intent if that is to survive a restart.
func NewKey() string {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	now := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint16(id[0:], uint16(now>>32))
	binary.BigEndian.PutUint32(id[2:], uint32(now))
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// DeriveKey returns the idempotency key of one step of an operation, such as the
// capture that follows an authorisation: the same whenever it is derived again,
// another for each step, parent and tenant. It is 64 hex digits, and an HMAC-SHA-256,
// so that neither tenant nor parent travels on. Within a run of package
// idempotency's Handler, that package's DeriveKey returns the same for the scope and
// key of the request.
//
// Parent is the key or the lasting name of the operation, such as an order number; it
// need not have the form of a key. Nothing that changes from one attempt to the next
// belongs in parent or step: no time, no token, no attempt number. Tenant may be empty
// where there is one alone. From an empty parent nothing is derived: the result is "",
// which is no key.
func DeriveKey(tenant, parent, step string) string {
	if parent == "" {
		return ""
	}
	if bare, ok := parseKey(parent); ok {
		parent = bare // one key, quoted or not
	}
	// The tenant's length goes first: tenant "a" with "bc" is not "ab" with "c".
	name := binary.AppendUvarint(nil, uint64(len(tenant)))
	name = append(name, tenant...)
	name = append(name, 0)
	id := sha256.Sum256(append(name, parent...))
	mac := hmac.New(sha256.New, id[:])
	mac.Write([]byte("gabion derived key 1\x00" + step))
	return hex.EncodeToString(mac.Sum(nil))
}

// settleKey gives the call the key that the policy asks for, and refuses one that
// can't be meant. Calls declared idempotent need none.
func (c *callOptions) settleKey(d *Dependency) error {
	use := d.state.Rules().Policy.Key.Use(c.Safe, c.key != "")
	if use == policy.KeyNone {
		return nil
	}
	return c.haveKey(d, use)
}

func (c *callOptions) haveKey(d *Dependency, use policy.KeyUse) error {
	switch use {
	case policy.KeyLacking:
		return &Error{Dependency: d.name, Reason: KeyMissing, Err: errNoKey}
	case policy.KeyFresh:
		c.key = NewKey()
	}
	return c.checkKey(d)
}

func (c *callOptions) checkKey(d *Dependency) error {
	if _, ok := parseKey(c.key); !ok {
		return &Error{Dependency: d.name, Reason: Invalid, Err: KeyMalformed}
	}
	p := &d.state.Rules().Policy
	if c.retention <= 0 || c.Safe || p.Safe {
		return nil
	}
	made, ok := c.keyTime()
	if !ok {
		return nil
	}
	left := time.Until(made.Add(useful(c.retention)))
	if left <= 0 {
		// An earlier run may have sent it, and the dependency may have forgotten.
		return &Error{Dependency: d.name, Reason: OutcomeUnknown, Effect: UnknownEffect, Err: KeyExpired}
	}
	call := c.Timeout
	if call <= 0 {
		call = p.Timeout.Call
	}
	if call <= 0 || left < call {
		c.Timeout = left // no retry comes later either
	}
	return nil
}

// useful is how much of a retention a client relies on: nine tenths, since clocks
// differ, and what is on its way arrives later.
func useful(retention time.Duration) time.Duration { return retention - retention/10 }

// keyTime is when the key was made, as far as that is known.
func (c *callOptions) keyTime() (time.Time, bool) {
	if c.madeAt != 0 {
		return time.UnixMilli(c.madeAt), true
	}
	key, _ := parseKey(c.key)
	return uuidTime(key)
}

// uuidTime returns the time that a UUID of version 7 carries.
func uuidTime(key string) (time.Time, bool) {
	if len(key) != 36 || key[8] != '-' || key[13] != '-' || key[14] != '7' || key[18] != '-' || key[23] != '-' {
		return time.Time{}, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(key, "-", ""))
	if err != nil || len(b) != 16 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b) >> 16)), true
}

// maxKey is the most characters that providers and package idempotency accept.
const maxKey = 255

// parseKey returns the bare characters of a key: as written, or out of the one
// quoted string that the IETF draft asks for (RFC 8941, section 3.3.3). Package
// idempotency reads the other end of the wire by the same rules; a test compares.
func parseKey(key string) (string, bool) {
	ok := true
	if strings.Contains(key, `"`) {
		key, ok = unquoteKey(key)
	}
	if !ok || key == "" || len(key) > maxKey {
		return "", false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return "", false
		}
	}
	return key, true
}

// unquoteKey reads a quoted string and the parameters after it, which have no meaning.
func unquoteKey(s string) (string, bool) {
	text, rest, ok := cutQuoted(s)
	for ok && rest != "" {
		rest, ok = cutKeyParameter(rest)
	}
	return text, ok
}

func cutQuoted(s string) (text, rest string, ok bool) {
	rest, ok = strings.CutPrefix(s, `"`)
	var b strings.Builder
	for ; ok && rest != ""; rest = rest[1:] {
		switch rest[0] {
		case '"':
			return b.String(), rest[1:], true
		case '\\':
			if rest = rest[1:]; rest == "" || rest[0] != '"' && rest[0] != '\\' {
				return "", "", false
			}
		}
		b.WriteByte(rest[0])
	}
	return "", "", false
}

func cutKeyParameter(s string) (rest string, ok bool) {
	s, ok = strings.CutPrefix(s, ";")
	s = strings.TrimLeft(s, " ")
	name := strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz0123456789_-.*")
	if !ok || name == s || s[0] != '*' && (s[0] < 'a' || s[0] > 'z') {
		return "", false
	}
	value, ok := strings.CutPrefix(name, "=")
	if !ok {
		return name, true
	}
	if strings.HasPrefix(value, `"`) {
		_, rest, ok = cutQuoted(value)
		return rest, ok
	}
	for rest = value; rest != "" && rest[0] != ';'; rest = rest[1:] {
		if rest[0] <= ' ' || rest[0] > '~' || strings.IndexByte(`",\`, rest[0]) >= 0 {
			return "", false
		}
	}
	return rest, len(rest) < len(value)
}

// forFallback is ctx for what answers in place of a call with this key. It does a
// different thing at a different place, so it has a key of its own: derived, for a
// run that comes back must find the same one.
func forFallback(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return context.WithValue(ctx, callKey{}, &keyedContext{key: DeriveKey("", key, "gabion fallback")})
}
