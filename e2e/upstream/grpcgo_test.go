//go:build upstream

package upstream

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const grpc = "google.golang.org/grpc"

// grpcGo is grpc-go's own tests of whole connections. Each is a subtest of one test.
var grpcGo = Suite{
	Name: "grpc-go", Version: versionOfGRPC, Run: runner{Together: subtestsTogether},
	Write: func(t *testing.T, dir string, with bool) (string, []string) {
		return writeGRPC(t, dir, "test", with), nil
	},
}

// grpcInterop is the interoperability client of grpc-go against its server.
var grpcInterop = Suite{
	Name: "grpc-go-interop", Version: versionOfGRPC, Run: runner{Together: interopTogether, Alone: interopAlone},
	Write: func(t *testing.T, dir string, with bool) (string, []string) {
		return writeGRPC(t, dir, "interop", with), nil
	},
}

func versionOfGRPC(t *testing.T) string {
	version, _ := module(t, filepath.Join(root(t), "contrib", "gabiongrpc"), grpc)
	return version
}

// writeGRPC copies grpc-go. Every ClientConn and every server of the package, and of the programs
// below it, has gabion's interceptors. Package grpc gets a place for them, since tests clear its
// global options.
func writeGRPC(t *testing.T, dir, pkg string, with bool) string {
	_, from := module(t, filepath.Join(root(t), "contrib", "gabiongrpc"), grpc)
	copyModule(t, from, dir)
	if !with {
		return filepath.Join(dir, pkg)
	}
	require(t, dir, ".", "contrib/gabiongrpc")
	write(t, filepath.Join(dir, "zz_gabion.go"), "package grpc\n\nvar (\n\tGabionDial  []DialOption\n\tGabionServe []ServerOption\n)\n")
	before := func(name, line, text string) {
		file := filepath.Join(dir, name)
		write(t, file, swap(t, read(t, file), line, text+line))
	}
	before("clientconn.go", "\tif !disableGlobalOpts {\n", "\tfor _, opt := range GabionDial {\n\t\topt.apply(&cc.dopts)\n\t}\n")
	before("server.go", "\tfor _, o := range globalServerOptions {\n", "\tfor _, o := range GabionServe {\n\t\to.apply(&opts)\n\t}\n")
	if pkg == "test" {
		write(t, filepath.Join(dir, "test", "zz_gabion_test.go"), fmt.Sprintf(grpcBetween, "test"))
	} else {
		write(t, filepath.Join(dir, "interop", "client", "zz_gabion.go"), fmt.Sprintf(grpcBetween, "main"))
		write(t, filepath.Join(dir, "interop", "server", "zz_gabion.go"), fmt.Sprintf(grpcBetween, "main"))
	}
	return filepath.Join(dir, pkg)
}

// grpcBetween is a file that puts gabion in. The policy limits and repeats nothing. Retries of
// grpc-go's own stay on, since the suite tests them.
const grpcBetween = `package %s

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

// interopTogether builds the client and the server and runs the cases.
func interopTogether(t *testing.T, p program, _ []string) map[string]result {
	for _, name := range []string{"server", "client"} {
		if out, err := command(5*time.Minute, p.dir, p.env, "go", "build", "-o", filepath.Join(p.dir, "zz_"+name), "./"+name); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	all := map[string]result{}
	for _, name := range interopCases {
		all[name] = result{} // each runs alone
	}
	return all
}

// interopAlone runs one case against a server of its own.
func interopAlone(_ *testing.T, p program, name string, limit time.Duration) result {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return result{said: err.Error()}
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	server := exec.CommandContext(ctx, filepath.Join(p.dir, "zz_server"), "--use_tls", "--port="+port)
	if err := server.Start(); err != nil {
		cancel()
		return result{said: err.Error()}
	}
	defer func() { cancel(); _ = server.Wait() }()
	for ctx.Err() == nil { // until it listens
		if c, err := net.DialTimeout("tcp", "localhost:"+port, time.Second); err == nil {
			c.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	out, err := command(limit, p.dir, p.env, filepath.Join(p.dir, "zz_client"), "--use_tls", "--use_test_ca", "--server_host_override=foo.test.google.fr",
		"--server_port="+port, "--test_case="+name, `--service_config_json={"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}`)
	if err != nil {
		return result{said: short(out)}
	}
	return result{state: passed}
}
