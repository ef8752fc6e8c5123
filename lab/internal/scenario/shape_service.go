package scenario

import "github.com/gabion-go/gabion/internal/yamlstrict"

// service answers calls.
type service struct {
	// Replicas is how many instances there are. Left out, it means 1.
	Replicas whole

	// Balance says which replica gets an attempt: random, round_robin, two_choices
	// or least_busy. Left out, it means random.
	Balance balanceWord

	// Workers is how many requests a replica works on at once. Left out, it means that no request
	// ever waits.
	Workers whole

	// Queue is how many may wait at a replica; the next is refused. Left out, it
	// means none.
	Queue whole

	// Order says who is served next: fifo, lifo, codel or priority. Left out, it
	// means fifo.
	Order orderWord

	// Target is how long a request may wait in an overload, for codel. Left out, it
	// means 20ms.
	Target span

	// Interval is how long it may wait otherwise, for codel, and for how long all have to
	// wait longer than the target until it is an overload. Left out, it means 1s.
	Interval span

	// DropExpired does no work for callers whose deadline has passed, as far as
	// deadlines are propagated.
	DropExpired bool

	// Time is how long the work itself takes.
	Time dist

	// ByCall makes what is slow for one attempt slow for all attempts of its call.
	ByCall bool

	// Crowd is how much longer work takes for each request under way.
	Crowd percent

	// RefuseCost is what refusing costs, as a share of the work.
	RefuseCost percent

	// HonoursKeys answers a call that was answered before without doing the work
	// again.
	HonoursKeys bool

	// StopsRetries says "do not retry" to callers when a service below has failed.
	StopsRetries bool

	// Pauses are when a replica does nothing at all.
	Pauses pauses

	// Limit is its rate limit.
	Limit limit

	// Quotas are how much of several things its callers may use in a time.
	Quotas quotas

	// Admission is what it lets in, before its workers and their queue.
	Admission admission

	// Deadline bounds the calls that it makes in turn.
	Deadline span

	// Calls are made in turn, after its own work, while the worker waits.
	Calls []yamlstrict.Node

	// Plan is the name of a plan's file, which says all of the above but what the service
	// calls, and its faults. Those come after the scenario's own.
	Plan string
}

// plan is the shape of a plan's file: one service, and what goes wrong with it.
type plan struct {
	// Version of the file's format.
	Version int

	// Title is one line for lists.
	Title string

	// Story says what happens, and what to look at.
	Story string

	// Duration is how long the plan goes on; afterwards nothing is wrong. Left out, it
	// lasts until its last fault is over.
	Duration span

	// Service is what it is when nothing is wrong.
	Service yamlstrict.Node

	// Faults are what goes wrong, and when.
	Faults []yamlstrict.Node
}

// admission is what gabionhttp.Admission does, at each replica. It does no work for callers
// who have gone or whose deadline has passed, and believes the priority of calls.
type admission struct {
	// Limit is how many requests are let in at once, or learned.
	Limit slots

	// Min is the lowest limit that is learned. Left out, it means 1.
	Min whole

	// Max is the highest limit that is learned. Left out, it means 1000.
	Max whole

	// Queue is how many may wait, or none. Left out, it means twice the limit, and 128
	// at least.
	Queue places

	// Target is how long a request may wait in an overload. Left out, it means 20ms.
	Target span

	// Interval is how long it may wait otherwise, and for how long all have to wait longer
	// than the target until it is an overload. Left out, it means 1s.
	Interval span

	// NewestFirst serves the newest request first in an overload.
	NewestFirst bool

	// Fair shares slots and queue among those who call: fleets and services.
	Fair bool

	// TenantShare is the most of both that one of them may have. It needs fair.
	TenantShare share

	// RetryAfter is the least time that a refusal names; the most is twice that. Left out,
	// it means 1s.
	RetryAfter span
}

// pauses are of each replica by itself, as of a process whose memory is collected: work stands
// still, no answer leaves, and requests go on arriving.
type pauses struct {
	// Every is how long it is from the end of one to the beginning of the next, on average
	// a millisecond at least.
	Every dist

	// For is how long one takes.
	For dist
}

// limit is a rate limit of a service.
type limit struct {
	// Rate is the requests that are let through.
	Rate rate

	// Burst is how many may come at once. Left out, it means 1.
	Burst whole

	// RetryAfter is what a refusal says of when to come again. Left out, it says
	// nothing.
	RetryAfter span

	// Exact says when there will be room instead.
	Exact bool

	// PerCaller gives each client the whole rate.
	PerCaller bool
}

// quotas are what a paid API has in place of a rate limit, or beside it. A request takes what its call
// uses of all of them, or is refused with 429 and takes nothing.
type quotas struct {
	// List is how much there is, such as 500 requests/1m and 200000 tokens/1m. It comes back steadily, or
	// at once at the end of each span: 25 usd/24h window. Each request is one of requests; what
	// else it uses, its call says.
	List []allowance

	// PerCaller gives each client quotas of its own, as with a key each.
	PerCaller bool

	// Tells is what each answer says is left, as in headers: left, the truth; nothing; none, that nothing is
	// left, whatever is; all, that all is. Left out, it means left.
	Tells tellsWord

	// RetryAfter is what a refusal says of when to come again. Left out, it says
	// nothing.
	RetryAfter span

	// Exact says when there will be room instead.
	Exact bool
}

// fault is something that goes wrong for a while.
type fault struct {
	// Kind is what goes wrong: down, black_hole, reset, brown_out, slow, errors,
	// lost_answers, rate_limit, restart, restart_clients, clock_skew, reload, cut_body,
	// slow_body, cache_down or store_down.
	Kind kindWord

	// At is when it begins.
	At instant

	// For is how long it lasts.
	For span

	// Ramp is how long it takes to grow to its full size, and to fall again; of a
	// restart, how long work is slow afterwards.
	Ramp span

	// Every makes it come again: down with every flaps.
	Every span

	// Until is the last time that it may come. Left out, it means the end.
	Until span

	// Service is where it is.
	Service string

	// Clients is the fleet, for restart_clients, reload and store_down.
	Clients string

	// Replicas is how many of them have it; of clients that restart, how many do each time, the next
	// ones. Left out, it means all.
	Replicas whole

	// Callers is how many of the clients that call have it, the first ones; the way from the others to the service is
	// well. Of a service that calls, its replicas count. Left out, it means all.
	Callers whole

	// Share is how many requests meet it, or how many keys a cache_down takes. Left out, it
	// means all.
	Share share

	// Factor is the capacity that a brown_out leaves, or how many times longer slow
	// work takes.
	Factor factor

	// Add is how much longer slow work or a slow body takes, or how far clocks are off.
	Add span

	// Status is what errors answer: a status of HTTP that is a failure, from 400 to 599. Left out, it means 503,
	// or 500 with after_work. A 500 comes when the time of the work was spent, any other before.
	Status whole

	// Answers are several ways in which errors fail, in place of status: each a status, a code of gRPC, reset for a connection that
	// breaks when the request has arrived, or refused for one that does not come about; and its share of what fails, all together 100 %.
	// The codes unknown and internal come when the time of the work was spent, as a 500 does.
	Answers []failing

	// RetryAfter is what errors say of when to come again, where they answer 429, 503 or 529.
	RetryAfter span

	// AfterWork makes errors come when the work was done.
	AfterWork bool

	// CostsWork makes errors and resets take a worker for as long as the work, though none is
	// done: to fail costs the service as much as to succeed.
	CostsWork bool

	// Limit is the rate limit of a rate_limit.
	Limit limit

	// Policy is the name of the policy that a reload changes to.
	Policy string
}
