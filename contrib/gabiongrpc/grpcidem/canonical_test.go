package grpcidem

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func must(m proto.Message, err error) []byte {
	if err != nil {
		panic(err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func object(fields int) *structpb.Struct {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range fields {
		s.Fields["f"+strconv.Itoa(i)] = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{
			structpb.NewNumberValue(float64(i)), structpb.NewBoolValue(i%2 == 0), structpb.NewStringValue("x"), structpb.NewNullValue(),
		}})
	}
	return s
}

// The form of a golden value must never change: stored fingerprints depend on it.
func TestCanonicalIsStable(t *testing.T) {
	for _, c := range []struct {
		name string
		m    proto.Message
		want string
	}{
		{"empty", &pb.SimpleRequest{}, ""},
		{"nested, scalars", &pb.SimpleRequest{ResponseSize: 300, Payload: &pb.Payload{Body: []byte("ab")}, FillUsername: true}, "10ac021a041202616220" + "01"},
		{"negative", wrapperspb.Int32(-1), "08ffffffffffffffffff01"},
		{"double", wrapperspb.Double(1.5), "09000000000000f83f"},
		{"float", wrapperspb.Float(1.5), "0d0000c03f"},
		{"map by key", &structpb.Struct{Fields: map[string]*structpb.Value{"b": structpb.NewBoolValue(true), "a": structpb.NewNullValue()}},
			"0a070a0161120208000a070a016212022001"},
	} {
		if got := hex.EncodeToString(Canonical(c.m)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whatever the order in which Go writes a map, the form is the same, and it is a
// message that means the same.
func TestCanonicalForgetsTheOrderOfMaps(t *testing.T) {
	m := object(20)
	want := string(Canonical(m))
	orders := map[string]bool{}
	for range 50 {
		wire := must(m, nil)
		orders[string(wire)] = true
		var received structpb.Struct
		if err := proto.Unmarshal(wire, &received); err != nil {
			t.Fatal(err)
		}
		if string(Canonical(&received)) != want {
			t.Fatal("another form of the same message")
		}
	}
	if len(orders) < 2 {
		t.Error("the marshaller wrote maps in one order: this test shows nothing")
	}
	var back structpb.Struct
	if err := proto.Unmarshal([]byte(want), &back); err != nil || !proto.Equal(&back, m) {
		t.Errorf("the form is no message that means the same: %v", err)
	}
}

// Every kind of field, singular, repeated and as a map's value, survives a round
// trip through the canonical form.
func TestCanonicalIsWireFormatOfEveryKind(t *testing.T) {
	m := everything(t)
	want := string(Canonical(m))
	back := dynamicpb.NewMessage(m.Descriptor())
	if err := proto.Unmarshal([]byte(want), back); err != nil || !proto.Equal(m, back) {
		t.Errorf("%v: %v, want %v", err, back, m)
	}
	for range 20 { // it keeps its fields in a map
		if string(Canonical(back)) != want {
			t.Fatal("another form of the same message")
		}
	}
}

// A program that knows none of the fields finds the same form, so that a deployment
// that adds fields makes no mismatches.
func TestCanonicalOfFieldsThatAreNotKnown(t *testing.T) {
	m := everything(t)
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	inner := m.Descriptor().ParentFile().Messages().ByName("Inner")
	stranger := dynamicpb.NewMessage(inner)
	if err := proto.Unmarshal(wire, stranger); err != nil {
		t.Fatal(err)
	}
	if string(Canonical(stranger)) != string(Canonical(m)) {
		t.Errorf("the form is\n%x, and of the known fields\n%x", Canonical(stranger), Canonical(m))
	}
}

// everything returns a message with all that there is.
func everything(t *testing.T) *dynamicpb.Message {
	t.Helper()
	d := everyKind(t)
	m := dynamicpb.NewMessage(d)
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		switch {
		case f.IsMap():
			for k := range 3 {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(strconv.Itoa(k)).MapKey(), sample(f.MapValue(), m.NewField(f).Map().NewValue))
			}
		case f.IsList():
			for range 3 {
				m.Mutable(f).List().Append(sample(f, m.NewField(f).List().NewElement))
			}
		default:
			m.Set(f, sample(f, func() protoreflect.Value { return m.NewField(f) }))
		}
	}
	m.SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 5000, protowire.VarintType), 7))
	return m
}

func sample(f protoreflect.FieldDescriptor, empty func() protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(math.MinInt32)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(math.MinInt64)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(math.MaxUint32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(math.MaxUint64)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1.5)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.Pi)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("s")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0, 1})
	}
	v := empty()
	v.Message().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 6000, protowire.VarintType), 1))
	return v
}

// everyKind describes a message with each kind of field in each form.
func everyKind(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	label := func(l descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto_Label { return &l }
	m := &descriptorpb.DescriptorProto{Name: proto.String("Every")}
	number := int32(1000) // counts down: fields are declared in another order than they are written
	add := func(name string, k descriptorpb.FieldDescriptorProto_Type, l descriptorpb.FieldDescriptorProto_Label, packed bool) *descriptorpb.FieldDescriptorProto {
		number--
		f := &descriptorpb.FieldDescriptorProto{Name: proto.String(name), Number: proto.Int32(number), Type: k.Enum(), Label: label(l)}
		switch k {
		case descriptorpb.FieldDescriptorProto_TYPE_ENUM:
			f.TypeName = proto.String(".Choice")
		case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE:
			f.TypeName = proto.String(".Inner")
		case descriptorpb.FieldDescriptorProto_TYPE_GROUP: // each has a message of its own, called like the field
			group := strings.ToUpper(name[:1]) + name[1:]
			f.TypeName = proto.String(".Every." + group)
			m.NestedType = append(m.NestedType, &descriptorpb.DescriptorProto{Name: proto.String(group)})
		}
		if packed {
			f.Options = &descriptorpb.FieldOptions{Packed: proto.Bool(true)}
		}
		return f
	}
	const one, many = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	for k := descriptorpb.FieldDescriptorProto_TYPE_DOUBLE; k <= descriptorpb.FieldDescriptorProto_TYPE_SINT64; k++ {
		n := strconv.Itoa(int(k))
		m.Field = append(m.Field, add("one"+n, k, one, false), add("many"+n, k, many, false))
		switch k {
		case descriptorpb.FieldDescriptorProto_TYPE_GROUP:
			continue // no map has groups
		case descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BYTES, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE:
		default:
			m.Field = append(m.Field, add("packed"+n, k, many, true))
		}
		key := &descriptorpb.FieldDescriptorProto{Name: proto.String("key"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: label(one)}
		value := add("value", k, one, false)
		value.Number = proto.Int32(2)
		m.NestedType = append(m.NestedType, &descriptorpb.DescriptorProto{Name: proto.String("Map" + n + "Entry"), Field: []*descriptorpb.FieldDescriptorProto{key, value}, Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}})
		entries := add("map"+n, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, many, false)
		entries.TypeName = proto.String(".Every.Map" + n + "Entry")
		m.Field = append(m.Field, entries)
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("every.proto"), Syntax: proto.String("proto2"),
		MessageType: []*descriptorpb.DescriptorProto{m, {Name: proto.String("Inner")}},
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("Choice"), Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: proto.String("NO"), Number: proto.Int32(0)}, {Name: proto.String("YES"), Number: proto.Int32(1)}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("Every")
}

func TestCanonicalTellsMessagesApart(t *testing.T) {
	unknown := func(n uint64) proto.Message {
		m := &pb.SimpleRequest{}
		m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 5000, protowire.VarintType), n))
		return m
	}
	box, err := anypb.New(wrapperspb.Int32(1))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i, m := range []proto.Message{
		&pb.SimpleRequest{}, &pb.SimpleRequest{Payload: &pb.Payload{}}, order("x"), order("y"),
		&pb.SimpleRequest{ResponseSize: 1}, unknown(1), unknown(2), object(1), object(2), box,
	} {
		if j, there := seen[string(Canonical(m))]; there {
			t.Errorf("%d and %d are one", j, i)
		}
		seen[string(Canonical(m))] = i
	}
}

// Anything on the wire has a form, and the form of the form is the form.
func FuzzCanonical(f *testing.F) {
	f.Add(must(object(3), nil))
	f.Add(must(order("x"), nil))
	f.Fuzz(func(t *testing.T, wire []byte) {
		for _, m := range []proto.Message{&structpb.Struct{}, &pb.SimpleRequest{}, &descriptorpb.FileDescriptorProto{}} {
			if proto.Unmarshal(wire, m) != nil {
				continue
			}
			form := Canonical(m)
			again := m.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(form, again); err != nil {
				t.Fatalf("%T: the form can't be read: %v", m, err)
			}
			if string(Canonical(again)) != string(form) {
				t.Fatalf("%T: the form of the form differs", m)
			}
		}
	})
}
