package gabiongrpc

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// declared keeps what the descriptors say: "/pkg.Service/Method" to a bool. Methods that
// nothing is registered of are not kept, since callers of a proxy can invent any.
var declared sync.Map

// declaredIdempotent reports whether the descriptor of a method says so.
func declaredIdempotent(method string) bool {
	if known, ok := declared.Load(method); ok {
		return known.(bool)
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return false
	}
	s, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return false
	}
	m := s.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return false
	}
	o, _ := m.Options().(*descriptorpb.MethodOptions)
	idempotent := o.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
	declared.Store(method, idempotent)
	return idempotent
}
