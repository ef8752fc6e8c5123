package gabiongrpc_test

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

// All calls and streams of the connection pass the dependency.
func Example() {
	p, _ := policy.Preset("internal-rpc")
	payments := gabion.New("payments", p)
	creds := insecure.NewCredentials()
	conn, err := gabiongrpc.NewClient("dns:///payments:443", payments, grpc.WithTransportCredentials(creds))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.Target())
	// Output: dns:///payments:443
}
