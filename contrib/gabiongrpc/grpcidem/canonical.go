package grpcidem

import (
	"bytes"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Canonical returns the form of a request in which honest retries are equal: its wire
// format with fields by number and maps by key. The bytes as received won't do, since
// Go and others write maps in another order each time; nor will the deterministic
// marshalling of the protobuf library, which another version may do otherwise, and
// then retries across a deployment would be mismatches. Fields that this program does
// not know count too, as they came.
//
// What a google.protobuf.Any holds is compared as bytes. A retry across a deployment
// that makes an unknown field known is a mismatch if that field is, or has in it, a
// map whose order differed.
func Canonical(m proto.Message) []byte { return appendMessage(nil, m.ProtoReflect()) }

// A field is a part of a message in wire format: tags and values of one number.
type field struct {
	number protowire.Number
	text   []byte
}

func appendMessage(b []byte, m protoreflect.Message) []byte {
	var all []field
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		all = append(all, field{d.Number(), appendField(nil, d, v)})
		return true
	})
	for rest := m.GetUnknown(); len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			n = len(rest)
		}
		all = append(all, field{number, rest[:n]})
		rest = rest[n:]
	}
	slices.SortStableFunc(all, func(x, y field) int { return int(x.number) - int(y.number) })
	for _, f := range all {
		b = append(b, f.text...)
	}
	return b
}

func appendField(b []byte, d protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch {
	case d.IsMap():
		return appendMap(b, d, v.Map())
	case d.IsList() && d.IsPacked():
		var packed []byte
		for i := range v.List().Len() {
			packed = appendValue(packed, d, v.List().Get(i))
		}
		b = protowire.AppendTag(b, d.Number(), protowire.BytesType)
		return protowire.AppendBytes(b, packed)
	case d.IsList():
		for i := range v.List().Len() {
			b = appendOne(b, d, v.List().Get(i))
		}
		return b
	}
	return appendOne(b, d, v)
}

func appendMap(b []byte, d protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	var entries [][]byte
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		entry := appendOne(nil, d.MapKey(), k.Value())
		entries = append(entries, appendOne(entry, d.MapValue(), v))
		return true
	})
	slices.SortFunc(entries, bytes.Compare)
	for _, entry := range entries {
		b = protowire.AppendTag(b, d.Number(), protowire.BytesType)
		b = protowire.AppendBytes(b, entry)
	}
	return b
}

// appendOne appends a value with its tag.
func appendOne(b []byte, d protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	b = protowire.AppendTag(b, d.Number(), wireType(d.Kind()))
	if d.Kind() == protoreflect.GroupKind {
		return protowire.AppendGroup(b, d.Number(), appendMessage(nil, v.Message()))
	}
	return appendValue(b, d, v)
}

func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}

func appendValue(b []byte, d protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch d.Kind() {
	case protoreflect.BoolKind:
		return protowire.AppendVarint(b, protowire.EncodeBool(v.Bool()))
	case protoreflect.EnumKind:
		return protowire.AppendVarint(b, uint64(v.Enum()))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return protowire.AppendVarint(b, uint64(v.Int()))
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(b, protowire.EncodeZigZag(v.Int()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return protowire.AppendVarint(b, v.Uint())
	case protoreflect.Fixed32Kind:
		return protowire.AppendFixed32(b, uint32(v.Uint()))
	case protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(b, uint32(v.Int()))
	case protoreflect.FloatKind:
		return protowire.AppendFixed32(b, math.Float32bits(float32(v.Float())))
	case protoreflect.Fixed64Kind:
		return protowire.AppendFixed64(b, v.Uint())
	case protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(b, uint64(v.Int()))
	case protoreflect.DoubleKind:
		return protowire.AppendFixed64(b, math.Float64bits(v.Float()))
	case protoreflect.StringKind:
		return protowire.AppendString(b, v.String())
	case protoreflect.BytesKind:
		return protowire.AppendBytes(b, v.Bytes())
	}
	return protowire.AppendBytes(b, appendMessage(nil, v.Message()))
}
