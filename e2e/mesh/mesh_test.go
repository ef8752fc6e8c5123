package mesh

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	daprv1 "github.com/dapr/dapr/pkg/apis/resiliency/v1alpha1"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign/export"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// policies are what is written: the defaults, what is safe, and all that a format has keys for.
func policies() map[string]policy.Policy {
	rich := policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: 9 * time.Second, Attempt: 1500 * time.Millisecond, Idle: 7 * time.Second},
		Retry:    policy.Retry{Attempts: 4, Backoff: backoff.Full(100*time.Millisecond, time.Second), Budget: policy.Budget{Shape: policy.BudgetShare, Ratio: 0.25}},
		Breaker:  policy.Breaker{Consecutive: 7, Open: 1500 * time.Millisecond, OpenMax: 6 * time.Second},
		Bulkhead: policy.Bulkhead{Limit: 70},
		HTTP:     policy.HTTP{Transient: []int{425}},
		GRPC:     policy.GRPC{Transient: []policy.GRPCCode{grpccode.ResourceExhausted}},
	}
	bare := policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}, Retry: policy.Retry{Budget: policy.Budget{Off: true}},
		Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	}
	return map[string]policy.Policy{"defaults": {}, "safe": {Safe: true}, "one attempt": {Retry: policy.Retry{Attempts: 1}}, "rich": rich, "bare": bare}
}

// documents are the documents of an export, as JSON.
func documents(t *testing.T, format string, p policy.Policy) (all [][]byte) {
	t.Helper()
	f, err := export.Find(format)
	if err != nil {
		t.Fatal(err)
	}
	text := f.Write(export.Dependency{Name: "stock", Host: "stock.shop.svc.cluster.local", Policy: p}).Text
	for part := range strings.SplitSeq(text, "---\n") {
		data, err := yaml.YAMLToJSONStrict([]byte(part))
		if err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		all = append(all, data)
	}
	return all
}

// object is a Kubernetes object whose spec has a type of its own.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`
}

// each calls a function with what the exports of a format have, by their policies.
func each(t *testing.T, format string, check func(t *testing.T, data []byte)) {
	t.Helper()
	for name, p := range policies() {
		t.Run(name, func(t *testing.T) {
			for _, data := range documents(t, format, p) {
				check(t, data)
			}
		})
	}
}

// strictly reads what has no key that its type does not know.
func strictly(t *testing.T, data []byte, to any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(data, to); err != nil {
		t.Errorf("%v\n%s", err, data)
	}
}

func TestIstioReadsExports(t *testing.T) {
	each(t, "istio", func(t *testing.T, data []byte) {
		var o object
		strictly(t, data, &o)
		var spec proto.Message
		switch o.APIVersion + " " + o.Kind {
		case "networking.istio.io/v1 VirtualService":
			spec = &networking.VirtualService{}
		case "networking.istio.io/v1 DestinationRule":
			spec = &networking.DestinationRule{}
		default:
			t.Fatalf("%s", data)
		}
		if err := protojson.Unmarshal(goSpans(t, o.Spec), spec); err != nil {
			t.Errorf("%v\n%s", err, o.Spec)
		}
	})
}

// goSpans writes times as protocol buffers do. Istio's objects have them as Go does, and its API server's
// schema takes any text.
func goSpans(t *testing.T, data []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key, of := range v {
				v[key] = walk(of)
				if text, is := of.(string); is && (key == "timeout" || key == "perTryTimeout" || key == "backoff" || key == "baseEjectionTime") {
					d, err := time.ParseDuration(text)
					if err != nil || d < time.Millisecond {
						t.Errorf("%s: %s: %v", key, text, err)
					}
					v[key] = protoSpan(d)
				}
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func protoSpan(d time.Duration) string {
	text, _ := json.Marshal(d.Seconds())
	return string(text) + "s"
}

func TestEnvoyReadsExports(t *testing.T) {
	each(t, "envoy", func(t *testing.T, data []byte) {
		response := &discoveryv3.DiscoveryResponse{}
		if err := protojson.Unmarshal(data, response); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if len(response.Resources) != 2 {
			t.Fatalf("%d resources", len(response.Resources))
		}
		routes, cluster := &routev3.RouteConfiguration{}, &clusterv3.Cluster{}
		for i, to := range []interface {
			proto.Message
			ValidateAll() error
		}{routes, cluster} {
			if err := response.Resources[i].UnmarshalTo(to); err != nil {
				t.Error(err)
			}
			if err := to.ValidateAll(); err != nil {
				t.Errorf("%v\n%s", err, data)
			}
		}
	})
}

func TestTheGatewayAPIReadsExports(t *testing.T) {
	each(t, "gateway-api", func(t *testing.T, data []byte) {
		var o object
		strictly(t, data, &o)
		switch o.APIVersion + " " + o.Kind {
		case "gateway.networking.k8s.io/v1 HTTPRoute":
			strictly(t, data, &gatewayv1.HTTPRoute{})
		case "gateway.networking.x-k8s.io/v1alpha1 XBackendTrafficPolicy":
			strictly(t, data, &gatewayx.XBackendTrafficPolicy{})
		default:
			t.Fatalf("%s", data)
		}
	})
}

// Linkerd's annotations are text; its routes are those of the Gateway API.
func TestLinkerdReadsExports(t *testing.T) {
	each(t, "linkerd", func(t *testing.T, data []byte) {
		var o object
		strictly(t, data, &o)
		if o.Kind == "HTTPRoute" {
			strictly(t, data, &gatewayv1.HTTPRoute{})
		} else if o.APIVersion+" "+o.Kind != "v1 Service" || o.Spec != nil {
			t.Errorf("%s", data)
		}
	})
}

func TestDaprReadsExports(t *testing.T) {
	each(t, "dapr", func(t *testing.T, data []byte) { strictly(t, data, &daprv1.Resiliency{}) })
}

// grpc-go refuses a client whose service config has a mistake.
func TestGRPCReadsExports(t *testing.T) {
	each(t, "grpc", func(t *testing.T, data []byte) {
		client, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(string(data)))
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}
