package checklistcmd

import (
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
)

// question is one thing that has to be so before a change ships.
type question struct {
	id    string // it never changes, and is not used again
	text  string
	check string // how to find out

	// rules of the linter answer it, where they can be evaluated: yes if none finds
	// anything. A person answers what they leave open.
	rules []string

	program bool     // it is asked once for the program, and not for each dependency
	keys    []string // the keys of a policy that the answer depends on; none means all

	// asked reports whether it is asked of a dependency, or of the program that uses the
	// file. Nil means always.
	asked func(f *config.File, dependency string) bool
}

func retries(f *config.File, name string) bool {
	return f.Policies[name].Resolved().Retry.Attempts > 1
}

func breaks(f *config.File, name string) bool { return !f.Policies[name].Resolved().Breaker.Off }

func serves(f *config.File, _ string) bool { return len(facts.Of(f).Program.Routes) > 0 }

// questions are all of them, in the order in which they are asked.
var questions = []question{
	{
		id: "C01", text: "When the breaker is open, do retries stop as well?", keys: []string{"retry", "breaker"},
		check: "a test opens the breaker, makes a call, and counts the requests at the server: none",
		asked: func(f *config.File, name string) bool { return retries(f, name) && breaks(f, name) },
	},
	{
		id: "C02", text: "Does the breaker see slow calls before they become errors?", rules: []string{"G013", "G014", "G015", "G016"}, keys: []string{"breaker", "timeout"},
		check: "breaker.slow is below the timeout, and calls are frequent enough to be judged", asked: breaks,
	},
	{
		id: "C03", text: "Is a Retry-After waited for?", rules: []string{"G036"}, keys: []string{"retry"},
		check: "a server answers 503 with Retry-After: 2, and the next attempt comes at least 2 s later", asked: retries,
	},
	{
		id: "C04", text: "Do waits between attempts have jitter, and do they grow?", rules: []string{"G003", "G004"}, keys: []string{"retry"},
		check: "retry.backoff", asked: retries,
	},
	{
		id: "C05", text: "Does one layer alone retry: not the SDK, the mesh or the caller's caller as well?", rules: []string{"G043", "G044"}, keys: []string{"retry"},
		check: "count the attempts at the server while it answers 503 to one call from the edge", asked: retries,
	},
	{
		id: "C06", text: "Is there a budget for retries?", rules: []string{"G020", "G021"}, keys: []string{"retry"},
		check: "retry.budget", asked: retries,
	},
	{
		id: "C07", text: "Do 3 attempts and 8 attempts send the same load in an outage?", keys: []string{"retry", "breaker"},
		check: "a load test with 80 % of answers 503: with retry.attempts: 8 the server gets at most 10 % more than with 3", asked: retries,
	},
	{
		id: "C08", text: "When an outage is over, does the traffic of retries stop within the longest wait?", keys: []string{"retry"},
		check: "gabion lab run short-blip --config FILE, and the rate of retries on the dashboard after the last outage", asked: retries,
	},
	{
		id: "C09", text: "Has every call that changes something an idempotency key, and is it made before the first attempt?", rules: []string{"G001", "G002"}, keys: []string{"retry", "key", "safe"},
		check: "the log of the server: all attempts of one call have one key", asked: retries,
	},
	{
		id: "C10", text: "Does the dependency keep keys for longer than the last retry can take?", rules: []string{"G037"}, keys: []string{"retry", "timeout", "key"},
		check: "the dependency's documentation, against the call's timeout and every queue above it", asked: retries,
	},
	{
		id: "C11", text: "Are errors that stay, such as a 400, never repeated, and do they leave the breaker closed?", rules: []string{"G005"}, keys: []string{"retry", "breaker", "http", "grpc"},
		check: "a list of the status codes and error codes that the dependency documents, with what the classifier makes of each",
	},
	{
		id: "C12", text: "Does the fallback still work when this dependency has been away for an hour?",
		check: "switch the dependency off in staging for as long; not-applicable where calls just fail", keys: []string{"breaker"},
	},
	{
		id: "C13", text: "Would fewer calls help this dependency to recover, so that a breaker is the right means?", keys: []string{"breaker"}, rules: []string{"G025"},
		check: "not for what is on the same machine, is called a few times an hour, or fails for a reason that load does not change", asked: breaks,
	},
	{
		id: "C14", text: "Is a message invisible to others for as long as all attempts may take?", keys: []string{"retry", "timeout"},
		check: "the queue's visibility timeout against the call's timeout, or a heartbeat",
		asked: func(f *config.File, name string) bool { return facts.Of(f).Facts[name].Queue },
	},
	{
		id: "C15", text: "Was this policy under load, with the dependency slow, failing and away?",
		check: "a load test at the rate of a busy hour, with gabion storm, or your own",
	},
	{
		id: "C30", text: "Does an engineer get an alert each time a breaker opens?", rules: []string{"G048"}, program: true,
		check: "open one in staging: the alert arrives. docs/alerts.md has rules for it",
	},
	{
		id: "C31", text: "Does a dashboard show the share of retries, how many succeed, and timeouts by their layer?", program: true,
		check: "look at it: docs/metrics.md says what the metrics are called",
	},
	{
		id: "C32", text: "Do deadlines travel on, and do they shrink with each hop?", program: true,
		check: "log the time that is left in the last service: it is less than in the first, and work ends when it is over",
	},
	{
		id: "C33", text: "Is a growing number of dead letters an alert?", program: true,
		check: "put one there in staging; not-applicable without queues",
	},
	{
		id: "C40", text: "Is it written down for each route what may happen to a run that was lost: tx, hold or reexecute?", rules: []string{"G053"}, program: true, asked: serves,
		check: "facts.routes, and the text for those who call it",
	},
	{
		id: "C41", text: "Does no handler call another service inside the transaction of its key?", program: true, asked: serves,
		check: "read each handler that uses the transaction: a rollback does not undo what another service did",
	},
	{
		id: "C42", text: "Is the scope of keys the caller, and not the whole world?", rules: []string{"G054"}, program: true, asked: serves,
		check: "two tenants send the same key: neither gets the other's answer",
	},
	{
		id: "C43", text: "Does the store of keys survive the loss of a machine, and never forget keys that count?", rules: []string{"G055", "G056", "G057", "G058", "G063"}, program: true, asked: serves,
		check: "Redis: maxmemory-policy noeviction and appendfsync always. NATS: three replicas, and sync always",
	},
	{
		id: "C44", text: "Are answers with keys neither streamed nor compressed inside the handler that keeps them?", rules: []string{"G059", "G060"}, program: true, asked: serves,
		check: "the order of middlewares: compression is outermost",
	},
	{
		id: "C45", text: "Does a route that moves money refuse requests while the store of keys is away?", rules: []string{"G062"}, program: true, asked: serves,
		check: "stop the store in staging, and send a payment: it is refused",
	},
	{
		id: "C46", text: "Does each route remember keys for longer than its callers repeat requests?", rules: []string{"G050"}, program: true, asked: serves,
		check: "the longest horizon of a caller, its queues and people who press again included",
	},
	{
		id: "C47", text: "Is a lease longer than a slow run, or extended while it runs?", rules: []string{"G051"}, program: true, asked: serves,
		check: "the 99.9th percentile of the handler",
	},
}
