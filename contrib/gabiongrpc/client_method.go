package gabiongrpc

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// declared keeps what the descriptors say of the methods that were called. Methods that
// nothing is registered of are not kept, since callers of a proxy can invent any.
var declared struct {
	known atomic.Pointer[map[string]bool]
	mu    sync.Mutex // held while known is replaced
}

// declaredIdempotent reports whether the descriptor of a method says so.
func declaredIdempotent(method string) bool {
	if known := declared.known.Load(); known != nil {
		if idempotent, ok := (*known)[method]; ok {
			return idempotent
		}
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
	keepDeclared(method, idempotent)
	return idempotent
}

func keepDeclared(method string, idempotent bool) {
	declared.mu.Lock()
	defer declared.mu.Unlock()
	all := map[string]bool{}
	if known := declared.known.Load(); known != nil {
		all = maps.Clone(*known)
	}
	all[method] = idempotent
	declared.known.Store(&all)
}
