package ratelimitservice

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The codes of an answer.
const (
	codeOK   = 1
	codeOver = 2
)

// request is a RateLimitRequest.
type request struct {
	domain      string
	descriptors []Descriptor
	hits        uint64
}

// answer is a RateLimitResponse, as far as it is used.
type answer struct {
	code     uint64
	statuses []status
}

// status is that of one descriptor.
type status struct {
	code    uint64
	limited bool // there is a limit
	left    uint64
	reset   time.Duration // 0 means that it does not say
}

// bounds is how long an answer counts, and how many hits it leaves where there is a limit: of all
// that are over the longest, and of the others the one that leaves least.
func (a *answer) bounds() (after time.Duration, left uint64, limited bool) {
	for _, s := range a.statuses {
		switch {
		case a.code == codeOver && s.code == codeOver:
			after = max(after, s.reset)
		case a.code == codeOK && s.limited && (!limited || s.left < left):
			after, left, limited = s.reset, s.left, true
		}
	}
	if after <= 0 {
		after = unsaid
	}
	return min(after, longest), left, limited
}

// wire is the codec of these two messages.
type wire struct{}

// Name implements encoding.Codec.
func (wire) Name() string { return "proto" }

// Marshal implements encoding.Codec.
func (wire) Marshal(v any) ([]byte, error) {
	r, ok := v.(*request)
	if !ok {
		return nil, fmt.Errorf("ratelimitservice: %T can't be sent", v)
	}
	b := text(nil, 1, r.domain)
	for _, d := range r.descriptors {
		var entries []byte
		for _, e := range d {
			entries = text(entries, 1, string(text(text(nil, 1, e.Key), 2, e.Value)))
		}
		b = text(b, 2, string(entries))
	}
	b = protowire.AppendTag(b, 3, protowire.VarintType)
	return protowire.AppendVarint(b, r.hits), nil
}

func text(b []byte, number protowire.Number, s string) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendString(b, s)
}

// Unmarshal implements encoding.Codec.
func (wire) Unmarshal(data []byte, v any) error {
	a, ok := v.(*answer)
	if !ok {
		return fmt.Errorf("ratelimitservice: %T can't be received", v)
	}
	*a = answer{}
	return each(data, func(number protowire.Number, n uint64, inner []byte) error {
		switch {
		case number == 1 && inner == nil:
			a.code = n
		case number == 2 && inner != nil:
			var s status
			if err := s.read(inner); err != nil {
				return err
			}
			a.statuses = append(a.statuses, s)
		}
		return nil
	})
}

func (s *status) read(data []byte) error {
	return each(data, func(number protowire.Number, n uint64, inner []byte) error {
		switch {
		case number == 1 && inner == nil:
			s.code = n
		case number == 2 && inner != nil:
			s.limited = true
		case number == 3 && inner == nil:
			s.left = n
		case number == 4 && inner != nil:
			return s.readReset(inner)
		}
		return nil
	})
}

// readReset reads a google.protobuf.Duration.
func (s *status) readReset(data []byte) error {
	return each(data, func(number protowire.Number, n uint64, inner []byte) error {
		switch {
		case inner != nil:
		case number == 1:
			s.reset += time.Duration(min(max(int64(n), 0), int64(longest/time.Second))) * time.Second
		case number == 2:
			s.reset += time.Duration(min(max(int64(n), 0), int64(time.Second)))
		}
		return nil
	})
}

// each calls f for each field of a message: with a number, or with bytes that are not nil. Fields of other kinds are
// skipped.
func each(data []byte, f func(number protowire.Number, n uint64, inner []byte) error) error {
	for len(data) > 0 {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		var (
			n     uint64
			inner []byte
		)
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			inner, size = protowire.ConsumeBytes(data)
		default:
			size = protowire.ConsumeFieldValue(number, kind, data)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		if kind != protowire.VarintType && kind != protowire.BytesType {
			continue
		}
		if kind == protowire.BytesType && inner == nil {
			inner = []byte{}
		}
		if err := f(number, n, inner); err != nil {
			return err
		}
	}
	return nil
}
