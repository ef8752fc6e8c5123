package scenario

import (
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// document is the shape of a file.
type document struct {
	// Version of the file's format.
	Version int

	// Title is one line for lists.
	Title string

	// Story says what happens, and what to look at.
	Story string

	// Seed is what all randomness comes from. Left out, it means 1.
	Seed whole

	// Replications is how often the world is run, each time with other draws. Left
	// out, it means 20.
	Replications whole

	// Duration is how long load is offered.
	Duration span

	// Warmup is how much of it does not count.
	Warmup span

	// Drain is how long what is under way at the end may take. Left out, it means
	// 30s.
	Drain span

	// Bin is the width of a bin of the series. Left out, it means a second, or a
	// six-hundredth of the duration when that is longer.
	Bin span

	// During is what counts as the time of trouble, such as 2m..3m. Left out, it
	// reaches from the first fault or spike to the end of the last.
	During window

	// Policies are by the name of the dependency, in the syntax of the production
	// file's dependencies. A production file replaces them by name.
	Policies yamlstrict.Node

	// Against is what to compare with: none, which only calls; plain, which has the
	// timeout of an attempt too; naive, which tries three times at once; or policies.
	Against yamlstrict.Node

	// Clients are the fleets by name.
	Clients map[string]yamlstrict.Node

	// Services are by name.
	Services map[string]yamlstrict.Node

	// Faults are what goes wrong, and when.
	Faults []yamlstrict.Node

	// Assert is what must hold, such as amplification(db) <= 1.2 during faults.
	Assert []yamlstrict.Node

	// Map is what a vulnerability map looks at.
	Map mapping
}

// mapping is the grid of a vulnerability map.
type mapping struct {
	// Load is in multiples of the scenario's load.
	Load []percent

	// Trigger is in multiples of how long the faults last, and of the height of
	// spikes.
	Trigger []percent

	// Replications is how many runs each cell gets. Left out, it means 10.
	Replications whole
}

// fleet is clients that are alike.
type fleet struct {
	// Count is how many there are.
	Count whole

	// Loop says when a client makes its next call: open, as the load says; closed,
	// after the one before has ended; trace, at the times that the trace says. Left
	// out, it means open.
	Loop loopWord

	// Rate is the pieces of work that the fleet begins, such as 100/s.
	Rate rate

	// Load is how the rate changes.
	Load []yamlstrict.Node

	// Daily makes the rate rise and fall.
	Daily daily

	// Even makes calls come at equal distances. Left out, they are a Poisson
	// process.
	Even bool

	// Trace is when calls are made, for the loop trace.
	Trace []instant

	// Replay is the same from a file of recorded calls, such as: from calls.csv, at time
	// s. With took, such as took ms ms, the work for a call takes as long as it took then,
	// and with status it ends as it ended then.
	Replay replay

	// Think is how long a client of a closed loop waits between calls.
	Think dist

	// Spread is over how long the clients of a closed loop start.
	Spread span

	// Session is after how many calls a client is replaced by one that knows
	// nothing. Left out, it means never.
	Session whole

	// Shared is how many clients share what is known of a dependency, as behind a
	// sidecar.
	Shared whole

	// Store is what the clients share limits over, as processes do that joined one fleet. What is shared the
	// policies of their calls say (fleet). Left out, each client has the whole.
	Store store

	// Greedy is the share of the work that the first client has, and the others are alike. Left out, all
	// are.
	Greedy share

	// Deadline is when an answer is too late to be of use.
	Deadline span

	// Queue is a broker between the load and the clients, who are consumers then: each piece
	// of work is a message. It is answered when it is acknowledged, and has failed when it is
	// a dead letter.
	Queue queue

	// Calls are made one after the other for each piece of work.
	Calls []yamlstrict.Node
}

// store is where clients ask for their shares of limits. The code of package fleet's pool and leases divides them.
type store struct {
	// Network is how long a message to the store takes, one way.
	Network dist

	// Lease is how long a share is good for. Left out, it means 10s.
	Lease span
}

// queue is a broker, and how its consumers work with it. What they decide is decided by the
// code of packages consumer, inbox and idempotency.
type queue struct {
	// Policy is the name of the consumers' dependency. Left out, it is that of the clients.
	Policy string

	// Plain is for consumers that have no policy and remember nothing: a message whose work
	// failed is given back. So do those of a word that against compares with, which send no
	// heartbeats either.
	Plain bool

	// Workers is how many messages a consumer works on at once. A bulkhead of the policy
	// decides instead where there is one.
	Workers whole

	// Prefetch is how many messages a plain consumer has beyond those. Left out, it means
	// none.
	Prefetch whole

	// Visibility is how long a message is kept from others once it is delivered. Left out, it
	// means 30s.
	Visibility span

	// Heartbeat extends the visibility while a message is worked on, every third of it.
	Heartbeat bool

	// Inbox is what consumers remember of messages: none; hold, by which a run that was lost
	// is never repeated; reexecute, by which it is. Left out, it means none.
	Inbox inboxWord

	// GiveUpAfter is how long a message is tried at least whose work fails, once its runs are
	// used up: consumers with the defaults have 15m. Left out, its runs alone decide.
	GiveUpAfter span

	// MaxDeliveries is how often the broker delivers a message before it makes it a dead
	// letter. Left out, it means any number.
	MaxDeliveries whole

	// Requeue is how long until a message comes again that a plain consumer gave back. Left
	// out, it means 100ms.
	Requeue span

	// LostAcks is the share of acknowledgements that don't reach the broker.
	LostAcks share

	// Partitions is how many there are. Each delivers its messages in order, one at a time.
	// Left out, there is no order.
	Partitions whole

	// Skip lets the others of a partition go on while a message waits to come again.
	Skip bool

	// Poison is the share of messages whose work can't succeed. It calls nothing.
	Poison share

	// PoisonDoes is what they do: fails, with an unclassified error; permanent, with one that
	// says that it will be the same next time; crashes, which ends the process. Left out, it
	// means fails.
	PoisonDoes harmWord
}

// daily is a rate that rises and falls as a sine does.
type daily struct {
	// Period is how long rising and falling take. Left out, it means 24h.
	Period span

	// Swing is how far the rate goes above and below, as a share of it.
	Swing share

	// Peak is when it is highest. Left out, it means a quarter of the period.
	Peak instant
}

// loadStep is a change of the rate.
type loadStep struct {
	// At is when it begins.
	At instant

	// Rate is the new rate.
	Rate rate

	// Times is the new rate, as a multiple of the fleet's.
	Times factor

	// Ramp is how long the change takes.
	Ramp span

	// For is how long it lasts: a spike. Left out, it stays.
	For span

	// Every makes a spike come again.
	Every span

	// Until is the last time that it may come. Left out, it means the end.
	Until span
}

// edge is who is called, and how.
type edge struct {
	// To is the service.
	To string

	// Policy is the name of the dependency whose policy is used. Left out, it is
	// that of the service.
	Policy string

	// Fan is how many calls are made at once. Left out, it means 1.
	Fan whole

	// Quorum is how many of them must succeed. Left out, it means all.
	Quorum whole

	// Chance is how often the call is made at all. Left out, it means always.
	Chance share

	// Network is how long a message takes, one way.
	Network dist

	// Loss is the share of messages that are lost, each way.
	Loss share

	// Method is that of an HTTP request, in capitals: it says whether the call may be
	// repeated without a key, and be hedged. Left out, the call is one of gabion.Do that
	// declares nothing: only the policy's safe and key make it safe, and keyed.
	Method methodWord

	// Keyed is for calls whose caller gives an idempotency key, which makes them safe.
	Keyed bool

	// Propagate sends the deadline along.
	Propagate bool

	// IgnoresHints is for callers that only see that an answer is an error: neither when to
	// come again, nor that it is no use, nor that there was no room. So does a plain loop.
	IgnoresHints bool

	// Fixed keeps the policy as the scenario says it, whatever it is compared with: the
	// caller, such as an SDK, is not what is tested.
	Fixed bool

	// Priority is low, normal or high.
	Priority urgentWord

	// Cache is beside the call: the caller looks there first, calls only if there is nothing,
	// and puts there what a call brought that succeeded.
	Cache cache

	// Connections are what the call is made over. Left out, any number is there and costs
	// nothing.
	Connections connections

	// Uses is what each attempt of the call uses of the quotas of the service, such as lognormal 700/5000
	// tokens. Answers say what it was, as the usage of language models does.
	Uses []usage

	// Estimates is what the caller says before that it will use, as a multiple of what it does: 1 is right, 3
	// three times too much. Left out, it says nothing, and the estimate of the policy counts.
	Estimates factor
}

// connections are those of each client of the fleet, or of each replica of the service, that
// calls. An attempt takes the one that was used last, opens one, or waits for its turn, within its
// timeout. One whose attempt was cut off, in use or while it was being opened, is closed, as by
// package database/sql; one that broke is, too.
type connections struct {
	// Size is how many there may be.
	Size whole

	// Wait is how long an attempt may wait for one; after that it fails, and nothing was sent. Left
	// out, it means for as long as the attempt may take.
	Wait span

	// Open is how long it takes to open one. Left out, it takes no time.
	Open dist

	// Idle is how long one is kept that is not used. Left out, it means for ever.
	Idle span

	// Life is how long one is used. Left out, it means for ever.
	Life span
}

// cache is one look-aside cache for all clients of the fleet, or all replicas of the service, that
// calls. To look takes no time. Of requests, amplification counts as needed what would
// be sent without it.
type cache struct {
	// Keys is how many things are asked for, at most a million.
	Keys whole

	// Zipf is how unequally: the k-th is asked for in proportion to 1/k to that power. Left
	// out, all are asked for equally often.
	Zipf factor

	// Size is how many answers there is room for: the one not used for longest makes room.
	// Left out, there is room for all.
	Size whole

	// TTL is how long an answer may be used. Left out, it means for ever.
	TTL span

	// Cold is for a cache that is empty at first. Left out, it is full of what is asked for
	// most, and the ages of that are spread over the TTL.
	Cold bool

	// Collapse lets those who miss what another one is calling for wait for that call, and
	// end as it does.
	Collapse bool
}
