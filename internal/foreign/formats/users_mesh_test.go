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
		format: "istio", fact: "settings of the only port that is used leave the trafficPolicy around them to a dependency of its own",
		text: istioHead + "kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a], http: [{route: [{destination: {host: a, port: {number: 80}}}]}]}\n---\n" +
			istioHead + "kind: DestinationRule\nmetadata: {name: rest}\nspec: {host: a, trafficPolicy: {retryBudget: {percent: 25}, portLevelSettings: [{port: {number: 80}, connectionPool: {http: {maxRetries: 2}}}]}}",
		routes: "a rest rest.port-80", plays: []string{"a: retry.budget.min_in_flight 2", "rest: retry.budget.ratio 25%"},
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
		format: "istio", fact: "of several DestinationRules the one that the cluster made first counts",
		text: istioHead + "kind: DestinationRule\nmetadata: {name: one, creationTimestamp: '2026-02-01T00:00:00Z'}\nspec: {host: a, trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}}\n---\n" +
			istioHead + "kind: DestinationRule\nmetadata: {name: two, creationTimestamp: '2025-01-01T00:00:00Z'}\nspec: {host: a, trafficPolicy: {connectionPool: {tcp: {maxConnections: 9}}}}\n---\n" +
			istioHead + "kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a], http: [{route: [{destination: {host: a}}]}]}",
		routes: "a", has: []string{"a: bulkhead.limit 9"}, says: []string{"lost: another DestinationRule"},
	},
	{
		format: "istio", fact: "a DestinationRule that is not exported to the clients' namespace does not count, and theirs counts before the service's",
		text: istioHead + "kind: DestinationRule\nmetadata: {name: own, namespace: shop}\nspec: {host: a, exportTo: ['.'], trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}}\n---\n" +
			istioHead + "kind: DestinationRule\nmetadata: {name: b, namespace: shop}\nspec: {host: b, trafficPolicy: {connectionPool: {tcp: {maxConnections: 8}}}}\n---\n" +
			istioHead + "kind: DestinationRule\nmetadata: {name: theirs, namespace: web}\nspec: {host: '*.shop.svc.cluster.local', exportTo: [web], trafficPolicy: {connectionPool: {tcp: {maxConnections: 9}}}}\n---\n" +
			istioHead + "kind: VirtualService\nmetadata: {name: b, namespace: web}\nspec: {hosts: [b.shop], http: [{route: [{destination: {host: b.shop}}]}]}\n---\n" +
			istioHead + "kind: VirtualService\nmetadata: {name: a, namespace: edge}\nspec: {hosts: [a.shop], http: [{route: [{destination: {host: a.shop}}]}]}",
		routes: "web.b edge.a shop.own shop.b", has: []string{"web.b: bulkhead.limit 9", "shop.own: bulkhead.limit 7"}, says: []string{"lost: it is not for clients in edge"},
		lacks: []string{"edge.a: bulkhead.limit 7"},
	},
	{
		format: "istio", fact: "a Sidecar is named, with what it may bound",
		text: istioHead + "kind: DestinationRule\nmetadata: {name: a}\nspec: {host: a}\n---\n" + istioHead + "kind: Sidecar\nmetadata: {name: s}\nspec: {inboundConnectionPool: {http: {http2MaxRequests: 5}}}",
		says: []string{"unknown: a Sidecar may bound"}, routes: "a",
	},
	{
		format: "envoy", fact: "after per_try_timeout the next request goes beside the first, while the call has time",
		text:   "name: r\nvirtual_hosts: [{name: h, routes: [{route: {cluster: c, timeout: 2.5s, hedge_policy: {hedge_on_per_try_timeout: true}, retry_policy: {retry_on: 5xx, num_retries: 3, per_try_timeout: 1s}}}]}]",
		routes: "h.c", says: []string{"nearly: another request goes beside the first"},
		has:   []string{"h.c: hedge.max 2", "h.c: hedge.delay 1s", "h.c: retry.attempts 1", "h.c: timeout.attempt off"},
		plays: []string{"h.c: hedge.max 2", "h.c: hedge.delay 1s", "h.c: retry.attempts 1", "h.c: timeout.attempt off"},
	},
	{
		format: "envoy", fact: "a hedge without a time of an attempt never goes, and one of the virtual host goes for all its routes",
		text: "name: r\nvirtual_hosts: [{name: h, hedge_policy: {hedge_on_per_try_timeout: true}, routes: [{name: x, route: {cluster: c, retry_policy: {retry_on: 5xx}}}, " +
			"{name: y, route: {cluster: c, retry_policy: {retry_on: 5xx, per_try_timeout: 1s}}}]}]",
		routes: "x y", plays: []string{"x: retry.attempts 2", "y: hedge.max 1"}, says: []string{"nearly: another request"},
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
		format: "linkerd", fact: "an annotation of a route counts before its rule's timeout, and that before the Service's; backendRequest is not read",
		text: "apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {timeout.linkerd.io/request: 9s}}\n---\n" +
			"apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\nmetadata: {name: x, annotations: {timeout.linkerd.io/request: 3s}}\nspec: {parentRefs: [{name: a}], rules: [{timeouts: {request: 4s, backendRequest: 1s}}]}\n---\n" +
			"apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\nmetadata: {name: y}\nspec: {parentRefs: [{name: a}], rules: [{timeouts: {request: 4s}}]}",
		routes: "x y", has: []string{"x: timeout.call 3s", "y: timeout.call 4s"}, says: []string{"lost: the route's annotation", "lost: retry.linkerd.io/timeout bounds"},
		plays: []string{"x: timeout.attempt off"},
	},
	{
		format: "linkerd", fact: "a ServiceProfile without a timeout has none",
		text:   "apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\nmetadata: {name: a.shop.svc.cluster.local}\nspec: {routes: [{name: GET, condition: {method: GET}, isRetryable: true}]}",
		routes: "a.shop.GET", plays: []string{"a.shop.GET: timeout.call off"},
	},
	{
		format: "linkerd", fact: "limits of the rate that a server takes are named",
		text: "apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {retry.linkerd.io/http: 5xx}}\n---\n" +
			"apiVersion: policy.linkerd.io/v1alpha1\nkind: HTTPLocalRateLimitPolicy\nmetadata: {name: l}\nspec: {total: {requestsPerSecond: 100}}",
		routes: "a", says: []string{"unknown: it bounds the requests that a server takes"},
	},
	{
		format: "linkerd", fact: "a Service with a ServiceProfile has no annotations that count",
		text: "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: shop, annotations: {retry.linkerd.io/http: 5xx, balancer.linkerd.io/failure-accrual: consecutive}}\n---\n" +
			"apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\nmetadata: {name: a.shop.svc.cluster.local, namespace: shop}\nspec: {routes: [{name: GET, condition: {method: GET}, isRetryable: true}]}",
		routes: "a.shop.GET", says: []string{"lost: the Service has a ServiceProfile"},
	},
	{
		format: "envoy", fact: "a cluster alone bounds the retries that gabion makes",
		text:   "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\ncircuit_breakers: {thresholds: [{retry_budget: {budget_percent: {value: 25}}}]}",
		routes: "a", has: []string{"a: retry.budget.shape share", "a: retry.budget.ratio 25%"}, plays: []string{"a: retry.attempts 1"},
	},
	{
		format: "linkerd", fact: "a ServiceProfile bounds no attempts",
		text:   "apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\nmetadata: {name: a}\nspec: {routes: [{name: r, isRetryable: true}]}",
		routes: "a.r", has: []string{"a.r: retry.attempts 10"}, says: []string{"nearly: as often as the budget and the timeout allow there; here 10 attempts in all"},
	},
	{
		format: "istio", fact: "a budget beside no retries has no effect",
		text: istioHead + "kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a], http: [{retries: {attempts: 0}, route: [{destination: {host: a}}]}]}\n---\n" +
			istioHead + "kind: DestinationRule\nmetadata: {name: a}\nspec: {host: a, trafficPolicy: {retryBudget: {percent: 25}}}",
		routes: "a", has: []string{"a: retry.attempts 1"}, lacks: []string{"a: retry.budget.ratio 25%"}, says: []string{"lost: no retry is made, so the budget bounds nothing here"},
	},
	{
		format: "istio", fact: "a header that sets Envoy's retries is named",
		text:   istioHead + "kind: VirtualService\nmetadata: {name: a}\nspec: {hosts: [a], http: [{match: [{headers: {x-envoy-retry-on: {exact: 5xx}}}], headers: {request: {set: {x-envoy-max-retries: '5'}}}, route: [{destination: {host: a}}]}]}",
		routes: "a", says: []string{"lost: the header x-envoy-max-retries counts there before what the route says"}, silent: []string{"the header x-envoy-retry-on"},
	},
	{
		format: "envoy", fact: "one that is added to requests is named, and none of answers",
		text: "'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\nvirtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, " +
			"request_headers_to_add: [{header: {key: X-Envoy-Retry-On, value: 5xx}}], response_headers_to_add: [{header: {key: x-envoy-max-retries, value: '5'}}], route: {cluster: a}}]}]",
		routes: "v.a", says: []string{"lost: the header x-envoy-retry-on counts there"}, silent: []string{"x-envoy-max-retries"},
	},
}
