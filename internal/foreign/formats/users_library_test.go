package formats

const daprHead = "apiVersion: dapr.io/v1alpha1\nkind: Resiliency\n"

// ofLibraries are what a hostile reading found, each wrong before.
var ofLibraries = []asWritten{
	{
		format: "resilience4j", fact: "backends and limiters are earlier names of instances",
		text:   "resilience4j.retry.backends.a: {maxAttempts: 5}\nresilience4j.ratelimiter.limiters.a: {limitForPeriod: 10, limitRefreshPeriod: 1s}",
		routes: "a", has: []string{"a: retry.attempts 5", "a: rate_limit.rate 10/s"},
	},
	{
		format: "resilience4j", fact: "Spring takes numbers in quotes",
		text:   "resilience4j:\n  retry.instances.a: {maxAttempts: '5'}\n  circuitbreaker.instances.a: {failureRateThreshold: \"40\"}",
		routes: "a", has: []string{"a: retry.attempts 5", "a: breaker.failure_rate 40%"},
	},
	{
		format: "resilience4j", fact: "waits neither grow nor vary without waitDuration",
		text:   "resilience4j.retry.instances.a: {maxAttempts: 5, enableExponentialBackoff: true, enableRandomizedWait: true}",
		routes: "a", plays: []string{"a: retry.backoff.kind constant", "a: retry.backoff.base 500ms"}, says: []string{"lost: without waitDuration"},
	},
	{
		format: "resilience4j", fact: "nor do open times without waitDurationInOpenState",
		text:   "resilience4j.circuitbreaker.instances.a: {enableExponentialBackoff: true}",
		routes: "a", plays: []string{"a: breaker.open_growth 1"}, says: []string{"lost: without waitDurationInOpenState"},
	},
	{
		format: "resilience4j", fact: "Spring takes one number with one unit for a time",
		text:  "resilience4j.retry.instances.a: {waitDuration: 1m30s}",
		wrong: "90000ms",
	},
	{
		format: "resilience4j", fact: "a profile comes over what holds for all",
		text: "resilience4j.retry:\n  configs.default: {waitDuration: 100ms}\n  instances:\n    a: {maxAttempts: 3}\n    b: {maxAttempts: 2}\n---\n" +
			"spring.config.activate.on-profile: prod\nresilience4j.retry.instances.a.max-attempts: 6",
		routes: "a b a-2", has: []string{"a: retry.attempts 3", "a-2: retry.attempts 6", "a-2: retry.backoff.base 100ms"},
	},
	{
		format: "resilience4j", fact: "documents without a profile are one",
		text:   "resilience4j.retry.configs.default: {maxAttempts: 4}\n---\nresilience4j.retry.instances.a: {waitDuration: 1s}",
		routes: "a", has: []string{"a: retry.attempts 4"},
	},
	{
		format: "resilience4j", fact: "a variable's default is read, and one without is named",
		text:   "resilience4j.retry.instances.a: {maxAttempts: '${TRIES:4}', waitDuration: '${WAIT}'}",
		routes: "a", has: []string{"a: retry.attempts 4"}, says: []string{"nearly: its default is read, 4", "unknown: has its value from outside"},
	},
	{
		format: "resilience4j", fact: "a file with nothing but a default has what annotations name",
		text:   "resilience4j.circuitbreaker.configs.default: {failureRateThreshold: 30}",
		routes: "default", has: []string{"default: breaker.failure_rate 30%"},
	},
	{
		format: "resilience4j", fact: "times of OpenFeign and filters of Spring Cloud Gateway are lost",
		text:   "spring.cloud:\n  openfeign.client.config.a: {readTimeout: 5000}\n  gateway: {routes: []}\nresilience4j.retry.instances.a: {maxAttempts: 2}",
		routes: "a", says: []string{"lost: 5000 ms without a byte", "lost: Spring Cloud Gateway is not read"},
	},
	{
		format: "spring-properties", fact: "application.properties says the same",
		text: "# a comment\nspring.application.name=shop\nresilience4j.retry.instances.a.max-attempts = 5\nresilience4j.retry.instances.a.waitDuration: 1\\\n  50ms\n" +
			"resilience4j.retry.instances.a.retryExceptions[0]=java.io.IOException\n#---\nspring.config.activate.on-profile=prod\nresilience4j.retry.instances.a.max-attempts=7",
		routes: "a a-2", has: []string{"a: retry.attempts 5", "a: retry.backoff.base 150ms", "a-2: retry.attempts 7"}, says: []string{"lost: not by classes of exceptions"},
	},
	{
		format: "dapr", fact: "a target that names no policy has the default one, that of its kind before that of all",
		text:   daprHead + "spec: {policies: {timeouts: {DefaultTimeoutPolicy: 3s, t: 1s}, retries: {DefaultRetryPolicy: {maxRetries: 7}, DefaultAppRetryPolicy: {maxRetries: 2}}}, targets: {apps: {a: {}, b: {timeout: t}}, components: {s: {outbound: {}}}}}",
		routes: "a b s.outbound", has: []string{"a: timeout.attempt 3s", "a: retry.attempts 3", "b: timeout.attempt 1s", "s.outbound: retry.attempts 8"},
	},
	{
		format: "dapr", fact: "and it is for apps without a target",
		text:   daprHead + "spec: {policies: {retries: {DefaultRetryPolicy: {maxRetries: 7}}}}",
		routes: "default", has: []string{"default: retry.attempts 8"},
	},
	{
		format: "dapr", fact: "without a retry Dapr's own counts",
		text:   daprHead + "spec: {policies: {timeouts: {t: 3s}}, targets: {apps: {a: {timeout: t}}}}",
		routes: "a", says: []string{"lost: DaprBuiltInServiceRetries"},
	},
	{
		format: "dapr", fact: "no key sets the first wait of an exponential retry",
		text:   daprHead + "spec: {policies: {retries: {r: {policy: exponential, initialInterval: 9s, maxRetries: 2}}}, targets: {apps: {a: {retry: r}}}}",
		routes: "a", says: []string{"unknown: Dapr ignores it"}, plays: []string{"a: retry.backoff.base 750ms"},
	},
	{
		format: "dotnet", fact: "Polly refuses 0 retries",
		text:  `{"Retry": {"MaxRetryAttempts": 0}}`,
		wrong: "write at least 1",
	},
	{
		format: "dotnet", fact: "a TimeSpan may have days before a colon",
		text:   `{"TotalRequestTimeout": {"Timeout": "0:00:00:45"}}`,
		routes: "the-document", has: []string{"the-document: timeout.call 45s"},
	},
	{
		format: "aws", fact: "sections of one profile are one, and [profile default] comes before [default]",
		text:   "[default]\nmax_attempts = 2\n[profile a]\nretry_mode = standard\n[profile default]\nmax_attempts = 6\n[profile a]\nmax_attempts = 5\n",
		routes: "default a", has: []string{"default: retry.attempts 6", "a: retry.attempts 5"},
	},
	{
		format: "nginx", fact: "other modules pass requests on alike",
		text: "upstream b { server x; server y; }\nserver { location /g { grpc_pass grpc://b; grpc_next_upstream error http_503; grpc_read_timeout 7s; proxy_read_timeout 9s; }\n" +
			"location /f { fastcgi_pass b; fastcgi_next_upstream_tries 1; } }",
		routes: "b b-2", has: []string{"b: timeout.attempt 7s", "b: retry.attempts 2", "b-2: retry.attempts 1"},
	},
	{
		format: "nginx", fact: "a stream has no answers, and other words",
		text: "stream { upstream s { server x; } server { proxy_pass s; proxy_next_upstream on; proxy_timeout 3s; } }",
		says: []string{"unknown: tells no answers apart"},
	},
	{
		format: "nginx", fact: "a server that is down is not asked",
		text:   "upstream b { server x; server y down; server z; }\nserver { location / { proxy_pass http://b; } }",
		routes: "b", has: []string{"b: retry.attempts 2"},
	},
	{
		format: "nginx", fact: "what nginx -T prints has its files in the place of include",
		text: "# configuration file /etc/nginx/nginx.conf:\nhttp { proxy_read_timeout 8s; include /etc/nginx/conf.d/*.conf; }\n" +
			"# configuration file /etc/nginx/conf.d/a.conf:\nupstream b { server x; server y; }\nserver { location / { include snippets/p.conf; proxy_pass http://b; } }\n" +
			"# configuration file /etc/nginx/snippets/p.conf:\nproxy_next_upstream_tries 1;\n",
		routes: "b", has: []string{"b: timeout.attempt 8s", "b: retry.attempts 1"},
	},
	{
		format: "resilience4j", fact: "resilience4j 1 has other names",
		text:   "resilience4j:\n  retry.instances.a: {maxRetryAttempts: 5}\n  circuitbreaker.instances.a: {ringBufferSizeInClosedState: 20, ring-buffer-size-in-half-open-state: 3}",
		routes: "a", has: []string{"a: retry.attempts 5", "a: breaker.window_calls 20", "a: breaker.min_calls 20", "a: breaker.probes 3"},
		says: []string{"nearly: the name of maxAttempts in resilience4j 1", "nearly: the name of slidingWindowSize and minimumNumberOfCalls in resilience4j 1"},
	},
	{
		format: "resilience4j", fact: "a configuration that no instance takes is named",
		text: "resilience4j.retry:\n  configs: {default: {maxAttempts: 2}, shared: {maxAttempts: 9}, base: {maxAttempts: 4}}\n  instances: {a: {waitDuration: 1s}, b: {baseConfig: base}}\n---\n" +
			"spring.config.activate.on-profile: prod\nresilience4j.retry.instances.a.max-attempts: 6",
		routes: "a b a-2", has: []string{"a: retry.attempts 2", "b: retry.attempts 4"}, says: []string{"lost: no instance of this file has shared as its base"},
	},
	{
		format: "resilience4j", fact: "a newer name counts before one of resilience4j 1, an instance before its base",
		text: "resilience4j.retry:\n  configs.default: {maxAttempts: 2}\n  instances:\n    a: {maxRetryAttempts: 5, maxAttempts: 4}\n    b: {maxRetryAttempts: 5}\n" +
			"resilience4j.circuitbreaker.instances.a: {ringBufferSizeInClosedState: 20, slidingWindowSize: 30}",
		routes: "a b", has: []string{"a: retry.attempts 4", "b: retry.attempts 5", "a: breaker.window_calls 30"},
	},
	{
		format: "resilience4j", fact: "an attempt of more than 12h has no end here",
		text:   "resilience4j.timelimiter.instances.a: {timeoutDuration: 1d}",
		routes: "a", has: []string{"a: timeout.attempt off"}, says: []string{"nearly: 1d is more than 12h, and off here"},
	},
	{
		format: "dapr", fact: "an attempt of more than 12h has no end here",
		text:   daprHead + "spec: {policies: {timeouts: {t: 24h}}, targets: {apps: {a: {timeout: t}}}}",
		routes: "a", has: []string{"a: timeout.attempt off"}, says: []string{"nearly: 24h is more than 12h, and off here"},
	},
	{
		format: "dapr", fact: "a policy that no target takes is named",
		text: daprHead + "spec: {policies: {timeouts: {t: 1s}, retries: {r: {maxRetries: 2}, DaprBuiltInServiceRetries: {maxRetries: 9}, DefaultRetryPolicy: {maxRetries: 4}}, circuitBreakers: {c: {trip: consecutiveFailures > 3}}}, " +
			"targets: {apps: {a: {retry: r}}}}",
		routes: "a", has: []string{"a: retry.attempts 3"}, says: []string{"lost: it replaces Dapr's own retries", "lost: no target of this file takes it"},
	},
	{
		format: "dapr", fact: "Dapr's own retries are as the file says",
		text:   daprHead + "spec: {policies: {retries: {DaprBuiltInServiceRetries: {maxRetries: 9}}}, targets: {apps: {a: {}}}}",
		routes: "a", has: []string{"a: retry.attempts 1"}, says: []string{"lost: without a retry Dapr itself repeats as DaprBuiltInServiceRetries says"},
	},
	{
		format: "nginx", fact: "a day between two reads, as WebSockets have it, is no timeout of an attempt",
		text:   "location / { proxy_pass http://b; proxy_read_timeout 86400; }",
		routes: "b", has: []string{"b: timeout.attempt off", "b: timeout.idle 24h"}, says: []string{"nearly: 86400 is more than 12h, and off here"},
	},
	{
		format: "nginx", fact: "a proxy_next_upstream_timeout of 0, as ingress-nginx writes it, is no bound",
		text:   "upstream b { server x; server y; } location / { proxy_pass http://b; proxy_next_upstream_timeout 0; proxy_next_upstream_tries 0; }",
		routes: "b", has: []string{"b: retry.attempts 2"}, lacks: []string{"b: timeout.call 1m"}, says: []string{"nearly: 0 is no bound there"},
	},
	{
		format: "aws", fact: "retries of SDKs changed in November 2026",
		text:   "[default]\nretry_mode = standard\n[profile a]\nretry_mode = adaptive\n",
		routes: "default a", has: []string{"default: retry.budget.cost 14", "a: retry.budget.cost 14"},
		says: []string{"nearly: as SDKs do it from November 2026 on", "nearly: answer asks for, at most 20s"},
	},
	{
		format: "dotnet", fact: ".NET takes the number of a BackoffType",
		text:   `{"Retry": {"BackoffType": 1, "UseJitter": false, "Delay": "00:00:01"}}`,
		routes: "the-document", has: []string{"the-document: retry.backoff.kind linear"},
	},
	{
		format: "nginx", fact: "without proxy_read_timeout nginx waits for a minute",
		text:   "location / { proxy_pass http://b; }",
		routes: "b", lacks: []string{"b: timeout.attempt 1m"}, plays: []string{"b: timeout.attempt 1m"}, says: []string{"nearly: nginx waits 60s for an answer if nothing is said"},
	},
}
