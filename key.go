package gabion

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
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

// settleKey gives the call the key that the policy asks for. Calls declared
// idempotent need none.
func (c *callOptions) settleKey(d *Dependency) error {
	mode := d.state.Rules().Policy.Key
	if mode == policy.KeyDeclared || c.key != "" || c.Safe {
		return nil
	}
	return c.needKey(d, mode)
}

func (c *callOptions) needKey(d *Dependency, mode policy.KeyMode) error {
	if mode == policy.KeyMade {
		c.key = NewKey()
		return nil
	}
	return &Error{Dependency: d.name, Reason: KeyMissing, Err: errNoKey}
}
