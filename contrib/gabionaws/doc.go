// Package gabionaws calls AWS services with aws-sdk-go-v2 through a gabion.Dependency.
//
// [Configure] takes the SDK's own retry out of every client made from a config and puts
// gabion's in its place: timeouts, backoff, budget, breaker, bulkhead. What else belongs to
// an attempt stays the SDK's: each is signed anew, with the clock corrected, and says its
// number in Amz-Sdk-Request; streams are rewound; errors and request IDs are the SDK's own
// below gabion's *gabion.Error. A config's or client's Retryer, RetryMode and
// RetryMaxAttempts are not used.
//
// Calls are never hedged, whatever the policy says: the SDK's middleware has room for one
// attempt at a time.
//
// The throttling that AWS answers with a 400 is known, and x-amz-retry-after is waited for.
//
// The SDK repeats every operation. So does gabion, but for those that do their work twice
// where an answer was lost: see [NotIdempotent]. They are repeated only if they provably
// did nothing, and otherwise the error says that they may have happened.
package gabionaws
