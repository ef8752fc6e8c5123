package gabiongrpc_test

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

const catalogueConfig = `{
  "methodConfig": [{
    "name": [{"service": "shop.Catalogue"}],
    "timeout": "2s",
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.1s",
      "maxBackoff": "1s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }],
  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}`

// The policies of a service config, and what means something else in them.
func ExampleFromServiceConfig() {
	config, err := gabiongrpc.FromServiceConfig([]byte(catalogueConfig))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, _ := config.Policy("/shop.Catalogue/Find")
	fmt.Println(p.Retry.Attempts, "attempts in", p.Timeout.Call)
	for _, note := range config.Notes[:2] {
		fmt.Printf("%d:%d %s\n", note.Line, note.Col, note.Reason)
	}
	// Output:
	// 4 attempts in 2s
	// 2:20 timeout.idle: a stream that brings nothing for 30s while a caller waits for it is ended
	// 2:20 breaker, bulkhead, pace: gabion adds them with their defaults
}

// All mistakes of a service config come at once.
func ExampleFindings() {
	_, err := gabiongrpc.FromServiceConfig([]byte(`{"methodConfig": [{
  "name": [{"service": "shop.Catalogue"}],
  "timeout": "2",
  "retryPolicy": {"maxAttempts": 1, "initialBackoff": "100ms", "maxBackoff": "1s",
    "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABEL"]}
}]}`))
	fmt.Println(err)
	// Output:
	// service config:3:14: timeout: "2" has no unit
	//   |   "timeout": "2",
	//   |              ^ write "2s" for seconds
	// service config:4:34: retryPolicy.maxAttempts: 1 is too few
	//   |   "retryPolicy": {"maxAttempts": 1, "initialBackoff": "100ms", "maxBa …
	//   |                                  ^ the first attempt counts too: write 2 to 5
	// service config:4:55: retryPolicy.initialBackoff: "100ms" is not a duration
	//   | … "maxAttempts": 1, "initialBackoff": "100ms", "maxBackoff": "1s",
	//   |                                       ^ gRPC writes "0.1s"
	// service config:5:54: retryPolicy.retryableStatusCodes: "UNAVAILABEL" is no gRPC code
	//   | … plier": 2, "retryableStatusCodes": ["UNAVAILABEL"]}
	//   |                                       ^ did you mean UNAVAILABLE?
}

// A connection whose methods follow a service config.
func ExampleServiceConfig_DialOptions() {
	config, err := gabiongrpc.FromServiceConfig([]byte(catalogueConfig))
	if err != nil {
		fmt.Println(err)
		return
	}
	deps, err := gabion.NewRegistry(config.Policies())
	if err != nil {
		fmt.Println(err)
		return
	}
	options, err := config.DialOptions(deps)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := grpc.NewClient("dns:///catalogue:443", append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	name, _ := config.Dependency("/shop.Catalogue/Find")
	fmt.Println(name, "in", deps.Names())
	// Output: shop.Catalogue in [shop.Catalogue]
}

// Without what gabion adds.
func ExampleServiceConfig_Exact() {
	config, err := gabiongrpc.FromServiceConfig([]byte(catalogueConfig))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, _ := config.Exact().Policy("/shop.Catalogue/Find")
	fmt.Println("breaker off:", p.Breaker.Off, "attempt timeout off:", p.Timeout.Attempt == policy.Off)
	// Output: breaker off: true attempt timeout off: true
}
