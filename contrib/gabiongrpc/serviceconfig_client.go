package gabiongrpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/gabion-go/gabion"
)

// DialOptions are what a connection needs whose calls follow s: each method goes through the
// dependency of its method config, which deps has under the name that [ServiceConfig.Policies]
// gives it. Methods that nothing is said of go through no dependency. Retries of grpc-go are
// off, [ServiceConfig.Rest] is passed on, and service configs that a name resolver brings are
// ignored, since s takes their place. The error says which dependency deps does not have.
//
//	deps, err := gabion.NewRegistry(config.Policies())
//	…
//	options, err := config.DialOptions(deps)
//	…
//	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(creds))...)
func (s *ServiceConfig) DialOptions(deps *gabion.Registry) ([]grpc.DialOption, error) {
	r := &routes{config: s}
	if s.config != nil {
		for _, m := range s.config.Methods {
			d, err := deps.Get(m.Dependency)
			if err != nil {
				return nil, fmt.Errorf("gabiongrpc: the dependencies are not those of the service config: %w", err)
			}
			r.clients = append(r.clients, &Client{Dependency: d})
		}
	}
	opts := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(r.unary),
		grpc.WithChainStreamInterceptor(r.stream),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	}
	if rest := s.Rest(); rest != "" {
		opts = append(opts, grpc.WithDefaultServiceConfig(rest))
	}
	return opts, nil
}

// routes leads each method to the Client of its method config.
type routes struct {
	config  *ServiceConfig
	clients []*Client
}

func (r *routes) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if i, ok := r.config.find(method); ok {
		return r.clients[i].unary(ctx, method, req, reply, conn, invoker, opts...)
	}
	return invoker(ctx, method, req, reply, conn, opts...)
}

func (r *routes) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if i, ok := r.config.find(method); ok {
		return r.clients[i].stream(ctx, desc, conn, method, streamer, opts...)
	}
	return streamer(ctx, desc, conn, method, opts...)
}
