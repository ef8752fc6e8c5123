package mesh

import (
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/gabion-go/gabion/internal/foreign"
)

// The documents that say what Envoy's keys mean.
const (
	envoyAPI     = "https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/"
	envoyRoute   = envoyAPI + "route/v3/route_components.proto"
	envoyRetry   = envoyRoute + "#config-route-v3-retrypolicy"
	envoyAction  = envoyRoute + "#config-route-v3-routeaction"
	envoyCluster = envoyAPI + "cluster/v3/cluster.proto"
	envoyBreaker = envoyAPI + "cluster/v3/circuit_breaker.proto"
	envoyOutlier = envoyAPI + "cluster/v3/outlier_detection.proto"
	envoyHTTP    = envoyAPI + "core/v3/protocol.proto#config-core-v3-httpprotocoloptions"
)

// protoKey makes the two spellings of a protobuf's key one: retryOn and retry_on, consecutive5xx and
// consecutive_5xx.
func protoKey(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch next := s[min(i+1, len(s)-1)]; {
		case unicode.IsUpper(r):
			b.WriteRune('_')
			b.WriteRune(unicode.ToLower(r))
		case r == '_' && next >= '0' && next <= '9':
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

const refused = "Envoy refuses keys that it does not know, unless its flags say otherwise"

var (
	protoCount   = foreign.Loosely(count)
	protoPercent = foreign.Loosely(foreign.Decimal(0, 100))
	protoLeast   = foreign.Loosely(foreign.Whole(1, math.MaxUint32))
	protoStatus  = foreign.Loosely(foreign.Whole(100, 599))
)

const (
	streams  = "here it is how long a body may bring nothing while a caller reads it"
	wholeLot = "here it bounds the body, from the answer's headers on"
)

// retryRules are those of a retry_policy, of a route and of a virtual host.
var retryRules = foreign.Sourced(envoyRetry, slices.Concat([]foreign.Rule{
	{Key: "retry_policy.retry_on", Shape: foreign.Commas, Fate: foreign.Nearly, To: "http.transient"},
	{Key: "retry_policy.num_retries", Shape: protoCount, Fate: foreign.Kept, To: "retry.attempts", Text: "{} retries after the first attempt"},
	{Key: "retry_policy.per_try_timeout", Shape: foreign.ProtoSpan, Fate: foreign.Kept, To: "timeout.attempt"},
	{Key: "retry_policy.per_try_idle_timeout", Shape: foreign.ProtoSpan, Fate: foreign.Lost, Text: "an attempt that brings nothing for {} goes on here until timeout.attempt ends it"},
	{Key: "retry_policy.retriable_status_codes[]", Shape: protoStatus, Fate: foreign.Nearly, To: "http.transient", Text: "{} is repeated if retry_on has retriable-status-codes"},
	{Key: "retry_policy.retry_back_off.base_interval", Shape: foreign.SpanWithin(foreign.ProtoSpan, 1, math.MaxInt64), Fate: foreign.Kept, To: "retry.backoff.base", Text: "full jitter, up to {} before the first retry"},
	{Key: "retry_policy.retry_back_off.max_interval", Shape: foreign.SpanWithin(foreign.ProtoSpan, 1, math.MaxInt64), Fate: foreign.Kept, To: "retry.backoff.cap"},
	{Key: "retry_policy.rate_limited_retry_back_off.max_interval", Shape: foreign.SpanWithin(foreign.ProtoSpan, 1, math.MaxInt64), Fate: foreign.Nearly, To: "retry.max_after", Text: "Envoy then waits as without the header; here a call ends that is asked to wait for more than {}"},
	{Key: "retry_policy.rate_limited_retry_back_off.reset_headers[].name", Shape: foreign.Word, Fate: foreign.Nearly, Text: "gabion reads Retry-After, and no other header"},
	{Key: "retry_policy.rate_limited_retry_back_off.reset_headers[].format", Shape: foreign.OneOf("SECONDS", "UNIX_TIMESTAMP"), Fate: foreign.Nearly, Text: "gabion reads Retry-After in seconds and as a date"},
	{Key: "retry_policy.host_selection_retry_max_attempts", Shape: foreign.Loosely(foreign.Decimal(0, math.MaxInt64)), Fate: foreign.Lost, Text: "a retry goes to where the balancer sends it; with endpoints.list it goes elsewhere"},
	{Key: "retry_policy.retry_host_predicate", Fate: foreign.Lost, Text: "a retry goes to where the balancer sends it, which with n hosts is the same one in 1 of n; with endpoints.list it goes elsewhere"},
	{Key: "retry_policy.retry_options_predicates", Fate: foreign.Lost, Text: "retries are alike here"},
	{Key: "retry_policy.retry_priority", Fate: foreign.Lost, Text: "retries stay with the endpoint or go on by endpoints.list; priorities are Envoy's"},
	{Key: "retry_policy.retriable_headers", Fate: foreign.Lost, Text: "an answer is not repeated here because of a header"},
	{Key: "retry_policy.retriable_request_headers", Fate: foreign.Lost, Text: "requests are repeated whatever their headers: 2 policies for 2 kinds of requests tell them apart"},
	{Key: "hedge_policy.hedge_on_per_try_timeout", Shape: foreign.Flag, Fate: foreign.Nearly, To: "hedge.delay", Text: "after per_try_timeout, or a failure before, another request goes beside the first, as often as num_retries says and timeout.call has room for; here without retry_back_off"},
	{Key: "hedge_policy.initial_requests", Shape: protoLeast, Fate: foreign.Lost, Text: "Envoy has not implemented it: 1 request is sent"},
	{Key: "hedge_policy.additional_request_chance", Fate: foreign.Lost, Text: "Envoy has not implemented it: 1 request is sent"},
	{Key: "retry_policy_typed_config", Fate: foreign.Lost, Text: "a retry policy of an extension is not read: what it repeats is not repeated here"},
}))

var routeRules = slices.Concat(
	foreign.Sourced(envoyRoute, slices.Concat([]foreign.Rule{
		{Key: "name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it names the dependency"},
		{Key: "virtual_hosts[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it names the dependency"},
		{Key: "virtual_hosts[].routes[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it names the dependency"},
		{Key: "virtual_hosts[].routes[].route.cluster", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the cluster"},
		{Key: "virtual_hosts[].routes[].route.weighted_clusters.clusters[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "the first one is the cluster that counts here"},
		{Key: "virtual_hosts[].routes[].route.weighted_clusters.clusters[].weight", Shape: protoCount, Fate: foreign.Elsewhere, Text: notFailing},
		{Key: "virtual_hosts[].routes[].route.priority", Shape: foreign.OneOf("DEFAULT", "HIGH"), Fate: foreign.Elsewhere, Text: "it finds the cluster's thresholds"},
	},
		foreign.Under("virtual_hosts[]", retryRules),
		foreign.Under("virtual_hosts[].routes[].route", retryRules),
		foreign.Sourced(envoyAction, foreign.Under("virtual_hosts[].routes[].route", []foreign.Rule{
			{Key: "timeout", Shape: foreign.ProtoSpan, Fate: foreign.Kept, To: "timeout.call"},
			{Key: "idle_timeout", Shape: foreign.ProtoSpan, Fate: foreign.Nearly, To: "timeout.idle", Text: "a stream may bring nothing for {}; " + streams},
			{Key: "max_stream_duration.max_stream_duration", Shape: foreign.ProtoSpan, Fate: foreign.Nearly, To: "timeout.body", Text: "a stream may last {} in all; " + wholeLot},
			{Key: "max_stream_duration.grpc_timeout_header_max", Shape: foreign.ProtoSpan, Fate: foreign.Lost, Text: "a caller's deadline counts here as it is, also one of more than {}"},
			{Key: "max_stream_duration.grpc_timeout_header_offset", Shape: foreign.ProtoSpan, Fate: foreign.Lost, Text: "timeout.hop_margin, 100ms, is taken off the deadline that is passed on; {} less is not asked"},
			{Key: "max_grpc_timeout", Shape: foreign.ProtoSpan, Fate: foreign.Lost, Text: "a caller's deadline counts here as it is, also one of more than {}"},
			{Key: "grpc_timeout_offset", Shape: foreign.ProtoSpan, Fate: foreign.Lost, Text: "timeout.hop_margin, 100ms, is taken off the deadline that is passed on; {} less is not asked"},
		})),
	)),
	foreign.Stays(notFailing, staysInRoutes...),
)

// staysInRoutes are keys of a RouteConfiguration that are not about calls that fail.
var staysInRoutes = slices.Concat(
	[]string{"@type", "vhds", "internal_only_headers", "response_headers_to_add", "response_headers_to_remove", "request_headers_to_add", "request_headers_to_remove",
		"most_specific_header_mutations_wins", "validate_clusters", "max_direct_response_body_size_bytes", "cluster_specifier_plugins", "request_mirror_policies",
		"ignore_port_in_host_matching", "ignore_path_parameters_in_path_matching", "typed_per_filter_config", "metadata", "vhost_header"},
	under("virtual_hosts[].", "domains", "matcher", "require_tls", "virtual_clusters", "rate_limits", "request_headers_to_add", "request_headers_to_remove", "response_headers_to_add",
		"response_headers_to_remove", "cors", "typed_per_filter_config", "include_request_attempt_count", "include_attempt_count_in_response", "include_is_timeout_retry_header",
		"per_request_buffer_limit_bytes", "request_body_buffer_limit", "request_mirror_policies", "metadata"),
	under("virtual_hosts[].routes[].", "match", "redirect", "direct_response", "filter_action", "non_forwarding_action", "metadata", "decorator", "typed_per_filter_config",
		"request_headers_to_add", "request_headers_to_remove", "response_headers_to_add", "response_headers_to_remove", "tracing", "per_request_buffer_limit_bytes", "request_body_buffer_limit", "stat_prefix"),
	under("virtual_hosts[].routes[].route.", "cluster_header", "cluster_specifier_plugin", "inline_cluster_specifier_plugin", "cluster_not_found_response_code", "metadata_match", "prefix_rewrite",
		"regex_rewrite", "path_rewrite_policy", "path_rewrite", "host_rewrite_literal", "auto_host_rewrite", "host_rewrite_header", "host_rewrite_path_regex", "host_rewrite", "append_x_forwarded_host",
		"early_data_policy", "flush_timeout", "request_mirror_policies", "rate_limits", "include_vh_rate_limits", "hash_policy", "cors", "upgrade_configs", "internal_redirect_policy",
		"internal_redirect_action", "max_internal_redirects", "weighted_clusters.header_name", "weighted_clusters.runtime_key_prefix", "weighted_clusters.total_weight",
		"weighted_clusters.random_value_specifier", "weighted_clusters.clusters[].*"),
)

func under(place string, keys ...string) []string {
	placed := make([]string, len(keys))
	for i, key := range keys {
		placed[i] = place + key
	}
	return placed
}

// thresholds are those of circuit_breakers.
var thresholds = foreign.Sourced(envoyBreaker, []foreign.Rule{
	{Key: "circuit_breakers.thresholds[].priority", Shape: foreign.OneOf("DEFAULT", "HIGH"), Fate: foreign.Elsewhere, Text: "it finds the routes"},
	{Key: "circuit_breakers.thresholds[].max_connections", Shape: protoCount, Fate: foreign.Nearly, To: "bulkhead.limit", Text: "{} connections are {} requests at once with HTTP/1.1, and more with HTTP/2; here it is {} requests"},
	{Key: "circuit_breakers.thresholds[].max_pending_requests", Shape: protoCount, Fate: foreign.Nearly, To: "bulkhead.queue", Text: "{} requests wait for a connection there until their timeout; here as many wait for a slot, at most 1s"},
	{Key: "circuit_breakers.thresholds[].max_requests", Shape: protoCount, Fate: foreign.Nearly, To: "bulkhead.limit", Text: "{} requests at once for each proxy; here for each process, and further ones wait in the queue where Envoy refuses them"},
	{Key: "circuit_breakers.thresholds[].max_retries", Shape: protoCount, Fate: foreign.Nearly, To: "retry.budget.min_in_flight", Text: "{} retries at once for each proxy; here for each process, and a retry counts while it waits, too"},
	{Key: "circuit_breakers.thresholds[].retry_budget.budget_percent.value", Shape: protoPercent, Fate: foreign.Nearly, To: "retry.budget.ratio", Text: "{} % of the requests in flight may be retries, for each proxy; here for each process, and a retry counts while it waits, too"},
	{Key: "circuit_breakers.thresholds[].retry_budget.min_retry_concurrency", Shape: protoCount, Fate: foreign.Kept, To: "retry.budget.min_in_flight"},
	{Key: "circuit_breakers.thresholds[].track_remaining", Shape: foreign.Flag, Fate: foreign.Elsewhere, Text: notFailing},
	{Key: "circuit_breakers.thresholds[].max_connection_pools", Shape: protoCount, Fate: foreign.Elsewhere, Text: connection},
	{Key: "circuit_breakers.per_host_thresholds", Fate: foreign.Lost, Text: "a bulkhead is of the dependency, and not of each of its hosts: with n hosts the bound here is n times too small if it is copied"},
})

var outliers = foreign.Sourced(envoyOutlier, slices.Concat([]foreign.Rule{
	{Key: "outlier_detection.consecutive_5xx", Shape: protoCount, Fate: foreign.Nearly, To: "breaker.consecutive", Text: "{} failures in a row: " + aHost},
	{Key: "outlier_detection.consecutive_gateway_failure", Shape: protoCount, Fate: foreign.Nearly, To: "breaker.consecutive", Text: "{} of 502, 503 and 504 in a row; here all failures count: " + aHost},
	{Key: "outlier_detection.consecutive_local_origin_failure", Shape: protoCount, Fate: foreign.Lost, Text: "failures to connect and answers count alike here, so {} is not told apart"},
	{Key: "outlier_detection.split_external_local_origin_errors", Shape: foreign.Flag, Fate: foreign.Lost, Text: "failures to connect and answers count alike here"},
	{Key: "outlier_detection.interval", Shape: foreign.ProtoSpan, Fate: foreign.Lost, Text: "each {} Envoy looks which hosts come back; here a breaker ends by itself when its time is over"},
	{Key: "outlier_detection.base_ejection_time", Shape: foreign.ProtoSpan, Fate: foreign.Nearly, To: "breaker.open", Text: "{} more with each ejection; here {}, then twice that, and one success ends it"},
	{Key: "outlier_detection.max_ejection_time", Shape: foreign.ProtoSpan, Fate: foreign.Nearly, To: "breaker.open_max", Text: "there it is the longest ejection, here the longest open time"},
	{Key: "outlier_detection.max_ejection_time_jitter", Shape: foreign.ProtoSpan, Fate: foreign.Lost, Text: "open times are lengthened by up to 10 %, breaker.open_jitter, and not by up to {}"},
	{Key: "outlier_detection.max_ejection_percent", Shape: foreign.Loosely(percent), Fate: foreign.Nearly, Text: "100 % of the hosts may be out, so a service that fails is left alone, as by a breaker"},
	{Key: "outlier_detection.enforcing_consecutive_5xx", Shape: foreign.Loosely(percent), Fate: foreign.Lost, Text: "of 100 hosts that should be out {} are; here a breaker opens in 100 of 100 cases"},
	{Key: "outlier_detection.enforcing_consecutive_gateway_failure", Shape: foreign.Loosely(percent), Fate: foreign.Nearly, Text: "of 100 hosts that should be out {} are; it is 0 where it is not written"},
	{Key: "outlier_detection.success_rate_stdev_factor", Shape: protoCount, Fate: foreign.Lost, Text: byHosts},
	{Key: "outlier_detection.failure_percentage_threshold", Shape: foreign.Loosely(percent), Fate: foreign.Lost, Text: "a host with {} % failures is out; gabion's breaker opens at 95 % of at least 30 calls in 10s"},
},
	lost(byHosts, under("outlier_detection.", "enforcing_success_rate", "success_rate_minimum_hosts", "success_rate_request_volume", "enforcing_local_origin_success_rate",
		"enforcing_consecutive_local_origin_failure", "enforcing_failure_percentage", "enforcing_failure_percentage_local_origin", "failure_percentage_minimum_hosts",
		"failure_percentage_request_volume", "successful_active_health_check_uneject_host", "always_eject_one_host", "monitors", "detect_degraded_hosts")...),
))

func lost(text string, keys ...string) []foreign.Rule {
	rules := foreign.Stays(text, keys...)
	for i := range rules {
		rules[i].Fate = foreign.Lost
	}
	return rules
}

const clusterHTTP = "typed_extension_protocol_options.*.common_http_protocol_options."

var clusterRules = slices.Concat(
	foreign.Sourced(envoyCluster, []foreign.Rule{
		{Key: "name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the routes"},
		{Key: "connect_timeout", Shape: foreign.ProtoSpan, Fate: foreign.Lost, Text: "connecting has no time of its own here: an attempt that hangs in it takes its whole timeout.attempt, where Envoy gives up after {}"},
		{Key: "common_lb_config.healthy_panic_threshold.value", Shape: protoPercent, Fate: foreign.Lost, Text: "with fewer than {} % of the hosts healthy Envoy sends to all again, so that it does not leave a service alone that fails; here the breaker does"},
	}),
	thresholds, outliers,
	foreign.Sourced(envoyHTTP, []foreign.Rule{
		{Key: "common_http_protocol_options.idle_timeout", Shape: foreign.ProtoSpan, Fate: foreign.Elsewhere, Text: connection},
		{Key: "common_http_protocol_options.max_stream_duration", Shape: foreign.ProtoSpan, Fate: foreign.Nearly, To: "timeout.body", Text: "a stream may last {} in all; " + wholeLot},
		{Key: clusterHTTP + "idle_timeout", Shape: foreign.ProtoSpan, Fate: foreign.Elsewhere, Text: connection},
		{Key: clusterHTTP + "max_stream_duration", Shape: foreign.ProtoSpan, Fate: foreign.Nearly, To: "timeout.body", Text: "a stream may last {} in all; " + wholeLot},
	}),
	foreign.Stays(notFailing, slices.Concat(
		[]string{"@type", "alt_stat_name", "type", "cluster_type", "lb_policy", "load_balancing_policy", "load_assignment", "health_checks", "eds_cluster_config", "transport_socket", "transport_socket_matches",
			"transport_socket_matcher", "tls_context", "dns_refresh_rate", "dns_failure_refresh_rate", "dns_jitter", "respect_dns_ttl", "dns_lookup_family", "dns_resolvers", "dns_resolution_config", "typed_dns_resolver_config",
			"use_tcp_for_dns_lookups", "wait_for_warm_on_init", "cleanup_interval", "upstream_bind_config", "lb_subset_config", "ring_hash_lb_config", "maglev_lb_config", "original_dst_lb_config",
			"least_request_lb_config", "round_robin_lb_config", "metadata", "protocol_selection", "upstream_connection_options", "close_connections_on_host_health_failure", "ignore_health_on_host_removal",
			"filters", "lrs_server", "lrs_report_endpoint_metrics", "track_timeout_budgets", "track_cluster_stats", "upstream_config", "preconnect_policy", "connection_pool_per_downstream_connection",
			"max_requests_per_connection", "per_connection_buffer_limit_bytes", "http_protocol_options", "http2_protocol_options", "upstream_http_protocol_options", "hosts"},
		under("common_lb_config.", "zone_aware_lb_config", "locality_weighted_lb_config", "update_merge_window", "ignore_new_hosts_until_first_hc", "close_connections_on_host_set_change",
			"consistent_hashing_lb_config", "override_host_status"),
		under("common_http_protocol_options.", "max_connection_duration", "max_headers_count", "max_response_headers_kb", "headers_with_underscores_action", "max_requests_per_connection"),
		under(clusterHTTP, "max_connection_duration", "max_headers_count", "max_response_headers_kb", "headers_with_underscores_action", "max_requests_per_connection"),
		under("typed_extension_protocol_options.*.", "*"),
	)...),
)

const listenerFilter = "filter_chains[].filters[].typed_config"

const unreadV2 = "config is the form of Envoy's API 2, which Envoy no longer takes: the connection manager below it is not read, and none of its routes is here"

// listenerRules are those of a Listener. Of its filters only the connection manager of HTTP is read.
var listenerRules = slices.Concat(
	foreign.Stays(notFailing, "*", "filter_chains[].*", "filter_chains[].filters[].*", listenerFilter+".*", listenerFilter+".common_http_protocol_options.*"),
	foreign.Sourced(envoyAPI+"listener/v3/listener.proto", []foreign.Rule{
		{Key: "filter_chains[].filters[].config", Fate: foreign.Unknown, Text: unreadV2},
		{Key: listenerFilter + ".http_filters[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: notFailing},
		{Key: listenerFilter + ".http_filters[].*", Fate: foreign.Elsewhere, Text: notFailing},
		{Key: listenerFilter + ".stream_idle_timeout", Shape: foreign.ProtoSpan, Fate: foreign.Nearly, To: "timeout.idle", Text: "a stream may bring nothing for {}; " + streams},
		{Key: listenerFilter + ".common_http_protocol_options.max_stream_duration", Shape: foreign.ProtoSpan, Fate: foreign.Nearly, To: "timeout.body", Text: "a stream may last {} in all; " + wholeLot},
	}),
)

// defaultChain moves rules of filter chains to the chain that counts where no other does.
func defaultChain(rules []foreign.Rule) []foreign.Rule {
	var moved []foreign.Rule
	for _, r := range rules {
		if strings.Contains(r.Key, "filter_chains[].") {
			r.Key = strings.Replace(r.Key, "filter_chains[].", "default_filter_chain.", 1)
			moved = append(moved, r)
		}
	}
	return moved
}

var bootstrapRules = foreign.Stays(notFailing, "@type", "node", "admin", "dynamic_resources", "cluster_manager", "layered_runtime", "runtime", "stats_sinks", "stats_config", "stats_flush_interval", "stats_flush_on_admin",
	"watchdog", "watchdogs", "tracing", "hds_config", "flags_path", "enable_dispatcher_stats", "header_prefix", "overload_manager", "use_tcp_for_dns_lookups", "dns_resolution_config",
	"typed_dns_resolver_config", "bootstrap_extensions", "fatal_actions", "config_sources", "default_config_source", "default_socket_interface", "inline_headers", "perf_tracing_file_path",
	"default_regex_engine", "xds_delegate_extension", "xds_config_tracker_extension", "listener_manager", "application_log_config", "grpc_async_client_manager_config", "stats_server_version_override",
	"certificate_provider_instances", "node_context_params", "memory_allocator_manager", "stats_eviction_interval", "static_resources.secrets")

// The tables of what a document of Envoy may be.
var (
	envoyRoutes    = foreign.NewTable(refused, protoKey, routeRules)
	envoyClusters  = foreign.NewTable(refused, protoKey, clusterRules)
	envoyListeners = foreign.NewTable(refused, protoKey, listenerAndRoutes, defaultChain(listenerAndRoutes))
	envoyBootstrap = foreign.NewTable(refused, protoKey, bootstrapRules,
		foreign.Under("static_resources.clusters[]", clusterRules),
		foreign.Under("static_resources.listeners[]", listenerAndRoutes),
		foreign.Under("static_resources.listeners[]", defaultChain(listenerAndRoutes)))

	listenerAndRoutes = slices.Concat(listenerRules, foreign.Under(listenerFilter+".route_config", routeRules))
)
