package idempotency

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// codecVersion is the first byte of a stored record. A reader refuses versions
// that it does not know: it could only guess what was done.
const codecVersion = 1

// MarshalBinary writes the record for stores that keep bytes. A checksum ends it,
// so that half a record is never taken for a whole one.
func (r Record) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, 192+len(r.Result.Body))
	b = append(b, codecVersion, byte(r.State), byte(r.Guarantee))
	b = append(b, r.Fingerprint[:]...)
	b = append(b, r.Owner[:]...)
	for _, n := range []int64{r.Token, int64(r.Attempt), int64(r.LeaseUntil), int64(r.Created), int64(r.Finished), int64(r.Expires), int64(r.Retention)} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Points)))
	for _, p := range r.Points {
		b = appendBytes(appendBytes(b, p.Name), p.Data)
	}
	b = binary.AppendVarint(b, int64(r.Result.Status))
	b = appendFields(b, r.Result.Header)
	b = appendFields(b, r.Result.Trailer)
	b = append(b, flag(r.Result.Omitted))
	b = appendBytes(b, r.Result.Body)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), nil
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendFields(b []byte, fields []Field) []byte {
	b = binary.AppendUvarint(b, uint64(len(fields)))
	for _, f := range fields {
		b = appendBytes(appendBytes(b, f.Name), f.Value)
	}
	return b
}

// UnmarshalBinary reads what MarshalBinary wrote. It returns [ErrUnreadable] for a
// newer version and for anything damaged. It copies what it keeps.
func (r *Record) UnmarshalBinary(b []byte) error {
	if len(b) > 0 && b[0] > codecVersion {
		return fmt.Errorf("%w: it is of version %d and this program knows %d", ErrUnreadable, b[0], codecVersion)
	}
	if len(b) < 4 || crc32.ChecksumIEEE(b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return fmt.Errorf("%w: its checksum is wrong", ErrUnreadable)
	}
	d := decoder{rest: b[:len(b)-4]}
	next := d.record()
	if d.bad || len(d.rest) > 0 {
		return fmt.Errorf("%w: it is malformed", ErrUnreadable)
	}
	*r = next
	return nil
}

// A decoder reads from the front of rest. Once something is bad it returns zeros.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) record() (r Record) {
	d.byte() // the version: UnmarshalBinary looked at it
	r.State, r.Guarantee = State(d.byte()), Guarantee(d.byte())
	copy(r.Fingerprint[:], d.take(uint64(len(r.Fingerprint))))
	copy(r.Owner[:], d.take(uint64(len(r.Owner))))
	r.Token, r.Attempt = d.varint(), int(d.varint())
	r.LeaseUntil, r.Created = Moment(d.varint()), Moment(d.varint())
	r.Finished, r.Expires = Moment(d.varint()), Moment(d.varint())
	r.Retention = time.Duration(d.varint())
	for n := d.count(); n > 0; n-- {
		r.Points = append(r.Points, Point{Name: string(d.bytes()), Data: clone(d.bytes())})
	}
	r.Result.Status = int(d.varint())
	r.Result.Header, r.Result.Trailer = d.fields(), d.fields()
	r.Result.Omitted = d.byte() != 0
	r.Result.Body = clone(d.bytes())
	d.bad = d.bad || int(r.State) >= len(states) || int(r.Guarantee) >= len(guarantees)
	return r
}

// clone keeps nil for empty, so that reading gives back what was written.
func clone(b []byte) []byte { return append([]byte(nil), b...) }

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.take(uint64(len(d.rest)) + 1)
		return 0
	}
	d.take(uint64(size))
	return n
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.take(uint64(len(d.rest)) + 1)
		return 0
	}
	d.take(uint64(size))
	return n
}

// count reads how many elements follow. Each has a byte at least, so that a
// damaged count allocates no more than the input has.
func (d *decoder) count() uint64 {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.take(uint64(len(d.rest)) + 1)
		return 0
	}
	return n
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *decoder) fields() (fields []Field) {
	for n := d.count(); n > 0 && !d.bad; n-- {
		fields = append(fields, Field{string(d.bytes()), string(d.bytes())})
	}
	return fields
}
