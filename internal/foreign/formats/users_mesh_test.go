package formats

var istioHead = "apiVersion: networking.istio.io/v1\n"

// ofMeshes are what a hostile reading found, each wrong before.
var ofMeshes = []asWritten{
	{
		format: "istio", fact: "Istio refuses retries with other keys and without attempts",
		text:  istioHead + "kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a], http: [{retries: {attempts: 0, retryOn: 5xx}, route: [{destination: {host: a}}]}]}",
		wrong: "has no effect without attempts",
	},
	{
		format: "istio", fact: "Istio takes no blanks in retryOn",
		text:  istioHead + "kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a], http: [{retries: {attempts: 2, retryOn: '5xx, reset'}, route: [{destination: {host: a}}]}]}",
		wrong: "blanks",
	},
	{
		format: "istio", fact: "of several DestinationRules for a host the subsets of all count, and the first trafficPolicy",
		text: istioHead + "kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a], http: [{route: [{destination: {host: a, subset: v2}}]}]}\n---\n" +
			istioHead + "kind: DestinationRule\nmetadata: {name: one}\nspec: {host: a, trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}}\n---\n" +
			istioHead + "kind: DestinationRule\nmetadata: {name: two}\nspec: {host: a, trafficPolicy: {connectionPool: {tcp: {maxConnections: 9}}}, subsets: [{name: v2, trafficPolicy: {retryBudget: {percent: 10}}}]}",
		routes: "a", has: []string{"a: bulkhead.limit 7"}, plays: []string{"a: retry.budget.ratio 10%"},
		says: []string{"lost: another DestinationRule"},
	},
	{
		format: "istio", fact: "a DestinationRule for a pattern counts where none names the host, the longest first",
		text: istioHead + "kind: DestinationRule\nmetadata: {name: all, namespace: istio-system}\nspec: {host: '*.local', trafficPolicy: {connectionPool: {tcp: {maxConnections: 5}}}}\n---\n" +
			istioHead + "kind: DestinationRule\nmetadata: {name: shop, namespace: istio-system}\nspec: {host: '*.shop.svc.cluster.local', trafficPolicy: {connectionPool: {tcp: {maxConnections: 6}}}}\n---\n" +
			istioHead + "kind: VirtualService\nmetadata: {name: a, namespace: shop}\nspec: {hosts: [a], http: [{route: [{destination: {host: a}}]}]}",
		routes: "shop.a istio-system.all", has: []string{"shop.a: bulkhead.limit 6"},
	},
	{
		format: "istio", fact: "a delegate has the times and retries of the route that hands over to it",
		text: istioHead + "kind: VirtualService\nmetadata: {name: root, namespace: edge}\nspec: {hosts: [a.com], gateways: [g], http: [{timeout: 3s, retries: {attempts: 4}, delegate: {name: shop, namespace: shop}}]}\n---\n" +
			istioHead + "kind: VirtualService\nmetadata: {name: shop, namespace: shop}\nspec: {http: [{name: x, timeout: 1s, route: [{destination: {host: a}}]}, {name: y, route: [{destination: {host: b}}]}]}",
		routes: "shop.shop.x shop.shop.y", has: []string{"shop.shop.x: timeout.call 1s", "shop.shop.x: retry.attempts 5", "shop.shop.y: timeout.call 3s"},
	},
	{
		format: "istio", fact: "an EnvoyFilter is named, with what it may do",
		text: istioHead + "kind: EnvoyFilter\nmetadata: {name: f}\nspec: {configPatches: []}",
		says: []string{"unknown: does not do what is said of it here"},
	},
	{
		format: "istio", fact: "defaults of the mesh are named",
		text: istioHead + "kind: DestinationRule\nmetadata: {name: a}\nspec: {host: a}\n---\napiVersion: install.istio.io/v1alpha1\nkind: IstioOperator\nspec: {meshConfig: {defaultHttpRetryPolicy: {attempts: 5}}}",
		says: []string{"unknown: defaultHttpRetryPolicy"}, routes: "a",
	},
	{
		format: "envoy", fact: "a retry policy of an extension is lost, and not another's matter",
		text:   "name: r\nvirtual_hosts: [{name: h, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: c, retry_policy_typed_config: {'@type': type.googleapis.com/x.Y}}}]}]",
		routes: "h.c", says: []string{"lost: a retry policy of an extension"},
	},
	{
		format: "envoy", fact: "the default filter chain has routes, too",
		text: "static_resources: {listeners: [{name: l, default_filter_chain: {filters: [{name: envoy.filters.network.http_connection_manager, typed_config: {route_config: {virtual_hosts: [{name: h, routes: [" +
			"{route: {cluster: c, timeout: 2s, retry_policy: {retry_on: 5xx, num_retries: 4}}}]}]}}}]}}]}",
		routes: "h.c", has: []string{"h.c: retry.attempts 5", "h.c: timeout.call 2s"},
	},
	{
		format: "envoy", fact: "a layer of the runtime that changes bounds is named",
		text: "static_resources: {clusters: [{name: c, connect_timeout: 1s}]}\nlayered_runtime: {layers: [{name: static, static_layer: {circuit_breakers: {c: {default: {max_retries: 50}}}, upstream.healthy_panic_threshold: 0, re2.max: 9}}]}",
		says: []string{"lost: the runtime says 50", "lost: the runtime says 0"}, routes: "c",
	},
	{
		format: "envoy", fact: "filters that refuse calls are lost",
		text: "static_resources: {listeners: [{filter_chains: [{filters: [{typed_config: {http_filters: [{name: envoy.filters.http.adaptive_concurrency, typed_config: {}}, {name: envoy.filters.http.router}], " +
			"route_config: {virtual_hosts: [{name: h, routes: [{route: {cluster: c}}]}]}}}]}]}]}",
		routes: "h.c", says: []string{"lost: bulkhead.limit: learned does that"},
	},
	{
		format: "envoy", fact: "the API 2 of Envoy is named where it hides routes",
		text: "static_resources: {listeners: [{filter_chains: [{filters: [{name: envoy.http_connection_manager, config: {route_config: {virtual_hosts: []}}}]}]}]}",
		says: []string{"unknown: API 2"},
	},
	{
		format: "gateway-api", fact: "a rule that redirects calls nothing",
		text:   "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}, {backendRefs: [{name: b}]}]}",
		routes: "a.1",
	},
	{
		format: "gateway-api", fact: "Envoy Gateway's policies are named",
		text:   "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {rules: [{backendRefs: [{name: b}]}]}\n---\napiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nspec: {retry: {numRetries: 5}}",
		routes: "a", says: []string{"unknown: Envoy Gateway's retry"},
	},
	{
		format: "linkerd", fact: "a Service with a ServiceProfile has no annotations that count",
		text: "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: shop, annotations: {retry.linkerd.io/http: 5xx, balancer.linkerd.io/failure-accrual: consecutive}}\n---\n" +
			"apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\nmetadata: {name: a.shop.svc.cluster.local, namespace: shop}\nspec: {routes: [{name: GET, condition: {method: GET}, isRetryable: true}]}",
		routes: "a.shop.GET", says: []string{"lost: the Service has a ServiceProfile"},
	},
}
