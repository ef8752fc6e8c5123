package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// grpcGo is grpc-go's own tests of whole connections.
var grpcGo = Suite{
	Name: "grpc-go test/ and interop/", Module: "google.golang.org/grpc", From: "contrib/gabiongrpc",
	Put: func(dir, root string) error { return putGRPC(dir, root, "test", "interop") },
	Run: func(dir string, only, skip []string) (map[string]bool, error) {
		return goTest(dir, "google.golang.org/grpc", []string{"./test", "./interop"}, only, skip)
	},
	Differences: map[string]string{
		"test:Test/CancelWhileServerWaitingForFlowControl":       atRecv,
		"test:Test/ConfigSelector/erroring_SelectConfig":         words,
		"test:Test/FailedServerStreaming":                        words,
		"test:Test/InvalidMetadata/unary_empty_key":              words,
		"test:Test/InvalidMetadata/unary_empty_appended_key":     words,
		"test:Test/InvalidMetadata/unary_invalid_key":            words,
		"test:Test/InvalidMetadata/unary_invalid_value":          words,
		"test:Test/InvalidMetadata/unary_invalid_appended_value": words,
		"test:Test/UnarySetSendCompressorAfterHeaderSendFailure": words,
		"test:Test/UnregisteredSetSendCompressorFailure/unary":   words,
	},
	Hangs: map[string]string{
		"test:Test/ClientRequestBodyErrorCancelStreamingInput": gone,
		"test:Test/ClientInitialHeaderEndStream":               gone,
		"test:Test/ClientSendDataAfterCloseSend":               gone,
	},
}

const (
	words  = "the error reads \"upstream: attempts_exhausted after 1 attempt: rpc error: …\", and the test compares its text; the status that status.FromError finds is the same"
	atRecv = "a stream of one request is opened beside its caller, so that an opening that fails is an error of Recv (docs/grpc.md)"
	gone   = "the stream has ended before it begins, and an Admission does not begin it; the test waits for its method"
)

// grpcInterop is the interoperability client of grpc-go against its server.
var grpcInterop = Suite{
	Name: "grpc-go interop client and server", Module: "google.golang.org/grpc", From: "contrib/gabiongrpc",
	Put: func(dir, root string) error { return putGRPC(dir, root, "interop/client", "interop/server") },
	Run: runInterop,
	Differences: map[string]string{
		"special_status_message":  words,
		"status_code_and_message": words,
	},
}

// putGRPC gives every ClientConn and every server of the packages gabion's interceptors. Package
// grpc gets a place for them, since tests clear its global options.
func putGRPC(dir, root string, packages ...string) error {
	if err := require(dir, root, ".", "contrib/gabiongrpc"); err != nil {
		return err
	}
	if err := write(dir, "zz_gabion.go", "package grpc\n\nvar (\n\tGabionDial  []DialOption\n\tGabionServe []ServerOption\n)\n"); err != nil {
		return err
	}
	if err := insert(filepath.Join(dir, "clientconn.go"), "\tif !disableGlobalOpts {\n", "\tfor _, opt := range GabionDial {\n\t\topt.apply(&cc.dopts)\n\t}\n"); err != nil {
		return err
	}
	if err := insert(filepath.Join(dir, "server.go"), "\tfor _, o := range globalServerOptions {\n", "\tfor _, o := range GabionServe {\n\t\to.apply(&opts)\n\t}\n"); err != nil {
		return err
	}
	for _, p := range packages {
		name, file := filepath.Base(p), "zz_gabion_test.go"
		if filepath.Dir(p) == "interop" {
			name, file = "main", "zz_gabion.go"
		}
		if err := write(dir, filepath.Join(p, file), fmt.Sprintf(grpcHooks, name)); err != nil {
			return err
		}
	}
	return nil
}

func write(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644) //nolint:gosec // a copy that is removed
}

// grpcHooks is a file that puts gabion in. The policy limits and repeats nothing. Retries of
// grpc-go's own stay on, since the suite tests them.
const grpcHooks = `package %s

import (
	"google.golang.org/grpc"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

func init() {
	client := &gabiongrpc.Client{Dependency: gabion.New("upstream", policy.Policy{
		Retry:    policy.Retry{Attempts: 1},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Off: true},
		Pace:     policy.Pace{Off: true},
		Timeout:  policy.Timeout{Attempt: policy.Off, Call: policy.Off, Body: policy.Off, Idle: policy.Off, Last: policy.Off, Margin: policy.Off},
	})}
	grpc.GabionDial = []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(client.UnaryInterceptor()),
		grpc.WithChainStreamInterceptor(client.StreamInterceptor()),
	}
	grpc.GabionServe = gabiongrpc.Server{Deadline: &gabiongrpc.Deadline{}, Admission: &gabiongrpc.Admission{Limit: 100000}}.Options()
}
`

// interopCases are those that need no environment of their own.
var interopCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream", "timeout_on_sleeping_server",
	"cancel_after_begin", "cancel_after_first_response", "status_code_and_message", "special_status_message", "custom_metadata",
	"unimplemented_method", "unimplemented_service", "orca_per_rpc", "orca_oob", "rpc_soak", "channel_soak",
}

// runInterop starts the server and runs the client for each case.
func runInterop(dir string, only, skip []string) (map[string]bool, error) {
	for _, p := range []string{"server", "client"} {
		if out, err := command(dir, "build", "-o", filepath.Join(dir, "zz_"+p), "./interop/"+p).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build ./interop/%s: %w\n%s", p, err, out)
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := exec.CommandContext(ctx, filepath.Join(dir, "zz_server"), "--use_tls", "--port="+port)
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer func() { cancel(); _ = server.Wait() }()
	if err := await(port); err != nil {
		return nil, err
	}
	tests := map[string]bool{}
	for _, name := range interopCases {
		if (only == nil || slices.Contains(only, name)) && !slices.Contains(skip, name) {
			tests[name] = interop(dir, port, name)
		}
	}
	return tests, nil
}

// interop runs one case.
func interop(dir, port, name string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(dir, "zz_client"), "--use_tls", "--use_test_ca", "--server_host_override=foo.test.google.fr",
		"--server_port="+port, "--test_case="+name, `--service_config_json={"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}`)
	out, err := c.CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", name, err, out)
	}
	return err == nil
}

// await waits until a server listens.
func await(port string) error {
	for range 100 {
		if c, err := net.Dial("tcp", "localhost:"+port); err == nil {
			return c.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("no server listens on port %s", port)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
