package grpc

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
)

// A refusal of gabion proxy has its reason, its effect and the time to come back, in each protocol of calls.
func TestAProxysRefusalIsUnderstood(t *testing.T) {
	file, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies: {api: {retry: off, breaker: {consecutive: 1, open: 1m, open_max: 1m, open_calls: off}}}\nproxy: {listen: [{address: \"127.0.0.1:0\", to: \"h2c://127.0.0.1:1\", dependency: api}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		t.Fatal(err)
	}
	p, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url := serveConnect(t, p.Handler("127.0.0.1:0"))
	plain := &http.Client{Transport: &http.Transport{Protocols: cleartext()}}
	t.Cleanup(plain.CloseIdleConnections)
	for range 3 {
		call(t, plain, url, false, protocols["gRPC"]) // the breaker opens
	}
	for name, options := range protocols {
		for what, ask := range map[string]func() error{
			"one": func() error {
				_, err := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](plain, url+unary, options...).CallUnary(t.Context(), connect.NewRequest(&pb.SimpleRequest{}))
				return err
			},
			"a stream": func() error {
				in, err := connect.NewClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](plain, url+stream, options...).CallServerStream(t.Context(), connect.NewRequest(&pb.StreamingOutputCallRequest{}))
				if err != nil {
					return err
				}
				defer in.Close()
				for in.Receive() {
				}
				return in.Err()
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				err := ask()
				if connect.CodeOf(err) != connect.CodeUnavailable {
					t.Fatal(err)
				}
				var all []proto.Message
				for _, d := range err.(*connect.Error).Details() {
					m, err := d.Value()
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, m)
				}
				open(t, all)
			})
		}
	}
	_, err = pb.NewTestServiceClient(dial(t, url)).UnaryCall(t.Context(), &pb.SimpleRequest{})
	if status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	var all []proto.Message
	for _, d := range status.Convert(err).Details() {
		all = append(all, d.(proto.Message))
	}
	open(t, all)
}

// open says whether details are those of an open breaker.
func open(t *testing.T, all []proto.Message) {
	t.Helper()
	if len(all) != 2 {
		t.Fatal(all)
	}
	info, _ := all[0].(*errdetails.ErrorInfo)
	if info.GetReason() != "breaker_open" || info.GetDomain() != "policy.gabion" || info.GetMetadata()["effect"] != "not sent" || info.GetMetadata()["attempts"] != "0" {
		t.Error(info)
	}
	if again, _ := all[1].(*errdetails.RetryInfo); again.GetRetryDelay().AsDuration() <= 0 {
		t.Error(again)
	}
}
