package catalog

// The labels that more than one metric has.
const (
	dependency  = "dependency"
	operation   = "operation"
	outcome     = "outcome"
	result      = "result"
	kind        = "kind"
	code        = "code"
	reason      = "reason"
	retried     = "retried"
	layer       = "layer"
	cause       = "cause"
	state       = "state"
	partition   = "partition"
	wait        = "wait"
	won         = "won"
	disposition = "disposition"
	quota       = "quota"
)

// NoFailures are the outcomes that say nothing bad of the dependency: answers, also "no",
// callers who left, mistakes of the program, and its own rate limit. Every other outcome is
// a failure of the dependency, also one that later versions may add.
var NoFailures = []string{"ok", "canceled", "not_retryable", "rate_limited", "key_missing", "outcome_unknown", "unknown_dependency", "invalid"}

// Calls and their attempts.
var (
	Calls = counter("gabion_calls_total", "Calls that have ended, by outcome.", dependency, operation, outcome).
		note("`outcome` is `ok` or a [reason](reasons.md). Calls that were refused before they began count too.")
	CallDuration = seconds("gabion_call_duration_seconds", "Time of whole calls, waits and retries included.", dependency, operation, result, retried).
			note("`result` is `success`, `failure`, or `canceled` if the caller left. `retried` is `yes` if a retry was sent; a hedge does not count.")
	Attempts = counter("gabion_attempts_total", "Attempts that have ended, by kind and class of their result.", dependency, kind, operation, result).
			note("`kind` is `first`, `retry` or `hedge`. `result` is the class: `success`, `network`, `timeout`, `server`, `throttled`, `contention`, `client`, `business`, `unclassified`, `ignored`, `rejected`, `crashed`. Divided by `gabion_calls_total` it is the amplification.")
	AttemptDuration = seconds("gabion_attempt_duration_seconds", "Time of single attempts.", dependency, operation, result).
			note("`result` is `success` or `failure`. Attempts that the caller ended are not counted.")
	SlowAttempts       = counter("gabion_slow_attempts_total", "Attempts that took longer than the policy's slow limit.", dependency, operation)
	AttemptsForSuccess = add(Metric{
		Name: "gabion_attempts_until_success", Type: Histogram, Unit: "attempts", Labels: []string{dependency, operation},
		Help: "First attempts and retries that calls which succeeded have sent.",
		Note: "Hedges do not count. The sum divided by the count is the mean; 1 is the best.",
	})
	DeadlineLeft = seconds("gabion_deadline_remaining_seconds", "Time until the call's deadline when an attempt starts.", dependency).
			note("Attempts of calls without a deadline are not counted.")
	Timeouts = counter("gabion_timeouts_total", "Limits of time that were reached, by layer.", dependency, layer).
			note("`layer` is `attempt`, `call`, `idle` and `body` (of a result that is being read), or `queue` (of the bulkhead).")
	Waits = counter("gabion_waits_total", "Waits of calls, by what they wait for.", dependency, wait).
		note("`wait` is `backoff`, `success` (a retry is held until some call succeeds), `slot`, `pace` or `rate`.")
	Refused = counter("gabion_attempts_refused_total", "Attempts that gabion refused to send, by reason.", dependency, reason).
		note("`reason` is one of [these](reasons.md), such as `breaker_open` or `bulkhead_full`.")
	Fallbacks    = counter("gabion_fallbacks_total", "Answers that a fallback gave, by why the call had failed.", dependency, reason)
	BodiesFailed = counter("gabion_results_broken_total", "Results that broke after the verdict, as a response body does.", dependency, reason).
			note("`reason` is `idle_timeout` or `body_timeout`, and `ok` where the connection broke.")
	Outlived = counter("gabion_results_outlived_total", "Results that were still open when their attempt's time was over.", dependency)
	Streams  = gauge("gabion_streams_open", "Results that outlived their attempt's time and are still open.", dependency).
			note("Of messages: runs of work that were left, since they go on after their time and their grace. Exposed once there was one.")
	Spent = counter("gabion_spent_total", "What answers said that they used, and what that costs at the policy's prices.", dependency, "unit").
		note("`unit` is `requests`, `input`, `cached`, `output` or `tokens`, or a money of the prices, such as `usd`. Exposed where the policy has `prices`.")
	SpentAnswers = counter("gabion_spent_answers_total", "Answers that said so.", dependency, "unit")
)

// Retries, their budget, hedges.
var (
	Retries = counter("gabion_retries_total", "Retries that were sent, by what the attempt before them had brought.", code, dependency, operation).
		note("`code` is the status or SQLSTATE of the failure that is repeated, or its class where there was no answer: `network`, `timeout`.")
	RetriedCalls = counter("gabion_retried_calls_total", "Calls that sent at least one retry, by result.", dependency, operation, result).
			note("`result` is `success`, `failure` or `canceled`. The share of `success` is the retry success rate.")
	Suppressed = counter("gabion_retries_suppressed_total", "Calls that failed without a retry that they had attempts left for, by reason.", dependency, reason).
			note("`budget_exhausted` is the retry budget. `attempts_exhausted` is not here: nothing was suppressed then.")
	BudgetTokens = gauge("gabion_retry_budget_tokens", "Retries and hedges that the budget allows right now.", dependency)
	RetriesOff   = gauge("gabion_retries_off", "1 if retries are switched off, here or for the process, else 0.", dependency)
	Switched     = counter("gabion_retries_switched_total", "Times that retries were switched off or on.", dependency)
	Hedges       = counter("gabion_hedges_total", "Hedges that were sent, by whether they brought the answer.", dependency, won).
			note("`won` is `yes` or `no`. They are counted when their call ends.")
	HedgesSkipped = counter("gabion_hedges_skipped_total", "Hedges that were due and not sent, by reason.", dependency, reason)
	ResentBelow   = counter("gabion_resent_below_total", "Requests that something below the policy sent again, unasked.", dependency).
			note("net/http does so when a connection that it reused turns out to be dead. They count as amplification.")
)

// The breaker.
var (
	BreakerState = gauge("gabion_breaker_state", "1 for the state that the breaker is in, 0 for the others.", dependency, partition, state).
			note("`state` is `closed`, `open`, `half_open`, `disabled`, `forced_open` or `observe_only`. Without `partition` it is the breaker of calls that name none; until a breaker of the dependency has moved, only `closed` is exposed. Other partitions are shown only while they are not closed, at most 20 names of each dependency; the rest is `_other`, with the worst state among them.")
	BreakerPartitions = gauge("gabion_breaker_partitions", "Breakers of the dependency in each state, over all partitions.", dependency, state).
				note("A state that no breaker is in is missing. The breaker of calls that name no partition counts once it was in use, or if there is no other. Use it for alerts: it knows all partitions.")
	BreakerOpens = counter("gabion_breaker_opens_total", "Times that a breaker of the dependency opened, from a state that lets all calls through.", dependency).
			note("One that opens again because its probes failed does not count: it was not closed. `gabion_breaker_transitions_total` has those.")
	BreakerTransitions = counter("gabion_breaker_transitions_total", "Changes of state of the dependency's breakers, by cause.", cause, dependency, "from", "to").
				note("`cause` is the rule that was broken, such as `failure_rate`, or why it moved otherwise, such as `probes_passed` or `forced`.")
	BreakerExceeded = counter("gabion_breaker_would_open_total", "Times that a breaker which only observes would have opened.", cause, dependency)
	FailureRatio    = gauge("gabion_breaker_failure_ratio", "Share of failures in the window of the breaker where it is largest.", dependency).
			unit("ratio").note("Between 0 and 1, the largest over all partitions. Missing while no breaker has enough calls to know, as while it is open: a window begins anew when its breaker closes.")
	SlowRatio = gauge("gabion_breaker_slow_ratio", "Share of slow calls in the window of the breaker where it is largest.", dependency).
			unit("ratio").note("As above.")
	Spilled = counter("gabion_partitions_spilled_total", "Calls that had to share a partition because there were too many.", dependency)
)

// Endpoints.
var (
	EndpointsOut = gauge("gabion_endpoints_out", "Endpoints of the dependency that get no attempts, because they don't work or asked for time.", dependency).
			note("Exposed where the policy has endpoints, as the next. `gabion_breaker_state` says which, by `partition`.")
	BackupsOut = gauge("gabion_backups_out", "Of the endpoints that are out, those that are backups: they would not work if they were needed.", dependency)
)

// Bulkhead, pace, limits.
var (
	InFlight       = gauge("gabion_bulkhead_in_flight", "Slots of the bulkhead that are taken.", dependency)
	Queued         = gauge("gabion_bulkhead_queued", "Calls that wait for a slot.", dependency)
	Limit          = gauge("gabion_bulkhead_limit", "Slots of the bulkhead.", dependency)
	LimitChanges   = counter("gabion_bulkhead_limit_changes_total", "Times that the bulkhead got a new limit.", dependency)
	AttemptTimeout = gauge("gabion_attempt_timeout_seconds", "The time that an attempt may take now, where it is measured.", dependency).
			unit("seconds").note("The longest over all partitions. Exposed where the policy has `timeout.percentile`.")
	PaceSet = counter("gabion_pace_set_total", "Times that the dependency asked for time, as with Retry-After.", dependency)
	Paced   = gauge("gabion_paced_seconds", "How much longer calls are held back because the dependency asked for time.", dependency).
		unit("seconds").note("The largest over all partitions. Missing while no call is held back.")
	ThrottleRefuses = gauge("gabion_throttle_refused_ratio", "Share of calls that the adaptive throttle refuses now.", dependency).
			unit("ratio").note("Exposed where the policy has a throttle, as the next two.")
	ThrottleRequests = gauge("gabion_throttle_window_requests", "Requests in the throttle's window, also those that it refused.", dependency)
	ThrottleAccepts  = gauge("gabion_throttle_window_accepts", "Requests in the throttle's window that the dependency took.", dependency)
	RateLimit        = gauge("gabion_rate_limit", "Turns a second that the client's rate limit gives.", dependency).
				note("Exposed where the policy has a rate limit, as the next two.")
	RateLimitAhead = gauge("gabion_rate_limit_ahead", "Turns that are taken and lie ahead.", dependency)
	RateLimitNext  = gauge("gabion_rate_limit_next_seconds", "Time until the next turn that is free.", dependency).unit("seconds")
	QuotaLeft      = gauge("gabion_quota_left", "What is left of a quota, as far as is known.", dependency, quota).
			note("`quota` is its unit and span, such as `tokens/1m`. Where calls name partitions, which have their own, it is that of the partition with the smallest share left. Exposed where the policy has quotas, as the next two.")
	QuotaAmount  = gauge("gabion_quota_amount", "How much there is of the quota in all.", dependency, quota)
	QuotaWaiting = gauge("gabion_quota_waiting", "Calls that wait for room in the quota.", dependency, quota).note("Of all partitions together.")
)

// Keys and messages.
var (
	Idempotency = counter("gabion_idempotency_total", "Requests with an idempotency key, by how they were decided.", dependency, result).
			note("`result` is `first`, `again`, `recover`, `replay`, `in_flight`, `mismatch`, `outcome_unknown`, `record_unreadable`, `store_unavailable`, or why the key was not looked up. It counts what has the Metrics as its Stream.")
	Messages = counter("gabion_messages_total", "Messages that were handled, by what became of them and why.", dependency, disposition, reason).
			note("`disposition` is `ack`, `retry` or `dead_letter`. `reason` is one of package inbox, such as `done` or `attempts_exhausted`. It counts what has the Metrics as its Stream.")

	DeadLetters = gauge("gabion_dead_letters", "Dead letters that are not done or dropped, by where they stand.", dependency, state).
			note("`state` is `waiting`, or `taken` by a consumer. `dependency` is the group of consumers. Exposed where the Config has Letters, as the next ones. Processes that share a store expose the same numbers: take the maximum, not the sum.")
	DeadUnresolved = gauge("gabion_dead_letters_unresolved", "Dead letters whose outcome is unknown and not resolved yet.", dependency).
			note("No redrive takes them.")
	DeadAge = gauge("gabion_dead_letters_oldest_age_seconds", "Time since the oldest dead letter that waits was put away.", dependency).
		unit("seconds").note("0 if none waits.")
	DeadBytes = gauge("gabion_dead_letters_bytes", "Room that dead letters take: payloads, headers and failures.", dependency).unit("bytes")
	DeadPut   = counter("gabion_dead_letters_put_total", "Dead letters that were ever put into the store.", dependency).
			note("The store counts it, so it goes on when a process starts anew.")
	DeadLost = counter("gabion_dead_letters_lost_total", "Dead letters that a full store removed although they waited.", dependency).
			note("Only under `deadletter.DropOldest`. It counts what has the Metrics as its Stream. Processes that share a store may tell of the same letters, so it may be too much, and never too little.")
	Redrives        = gauge("gabion_redrives_running", "Whether a redrive of dead letters goes on.", dependency)
	RedrivesStopped = gauge("gabion_redrives_stopped", "Whether the last redrive of the group stopped by itself.", dependency).
			note("A redrive stops by itself when too few of its letters succeed. It stays 1 until the next redrive of the group is ordered.")
	DeadUp = gauge("gabion_dead_letter_store_up", "1 if the store of dead letters answered when it was asked last, else 0.").
		note("While it is 0, the metrics of dead letters are as they were, and go after a minute.")

	OutboxMessages = gauge("gabion_outbox_messages", "Messages of an outbox that are not published, by where they stand.", "outbox", state).
			note("`state` is `waiting` to be published, `resting` after a failure, or `parked`: given up until an operator retries or discards them, such as those of a topic that the broker does not have. Exposed where the Config has Outboxes, as the next ones. Processes that share an outbox expose the same numbers: take the maximum, not the sum.")
	OutboxAge = gauge("gabion_outbox_oldest_age_seconds", "How long the oldest message has waited to be published.", "outbox").
			unit("seconds").note("0 if none waits.")
	OutboxUp = gauge("gabion_outbox_up", "1 if the database of the outbox answered when it was asked last, else 0.", "outbox").
			note("While it is 0, the metrics of the outbox are as they were, and go after two minutes.")
)

// Fleets.
var (
	ShareLost = gauge("gabion_share_lost", "1 if the share of the dependency's limits has ended and the store of the fleet gave no other, else 0.", dependency).
			note("Exposed where limits are shared, as the next. While it is 1, what the policy's `fleet.lost` says is in force. `gabion_rate_limit` and `gabion_bulkhead_limit` have the share.")
	ShareLeft = gauge("gabion_share_remaining_seconds", "Time until the share ends, unless it is renewed.", dependency).
			unit("seconds").note("0 once it has ended.")
	FleetMembers = gauge("gabion_fleet_members", "Processes that have shares, as was last heard.", "fleet").
			note("Exposed where the Config has a Fleet, as the next ones. Each process exposes what it heard: take the maximum, not the sum.")
	FleetFailed = counter("gabion_fleet_renewals_failed_total", "Renewals that the store of the fleet did not answer.", "fleet").
			note("The first of a row is logged.")
	FleetOverrides = gauge("gabion_fleet_overrides", "Overrides of operators that are in force in the process.", "fleet")
)

// Configuration, and gabion itself.
var (
	Reloads       = counter("gabion_policy_reloads_total", "Times that the dependency got a new policy.", dependency)
	ReloadSuccess = gauge("gabion_config_last_reload_success", "1 if the last reload of the configuration succeeded, else 0.").
			note("Exposed once the program has called Metrics.ConfigLoaded.")
	ReloadTime = gauge("gabion_config_last_reload_success_timestamp_seconds", "Time of the last reload that succeeded.").
			unit("seconds").note("Likewise, seconds since 1970.")
	ConfigInfo = gauge("gabion_config_info", "Always 1, with the hash of the configuration in force.", "hash").
			note("Likewise.")
	EventsLost = counter("gabion_events_lost_total", "Events that were lost because the queue was full.", dependency).
			note("The counters above lack what these events said.")
	ObserverPanics = counter("gabion_observer_panics_total", "Panics of observers, whichever they were.", dependency)
	Overflow       = counter("gabion_label_overflow_total", "Events and samples counted as _other because a label had too many values.", "label").
			note("`label` is `dependency`, `operation`, `code`, `partition`, `result` or `disposition`. A value that grows means that a name comes from traffic: give operations by route, not by URL.")
)
