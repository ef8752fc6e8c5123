package play

// Story is a world with something to see in it.
type Story struct {
	Name  string   `json:"name"`
	Title string   `json:"title"`
	Text  []string `json:"text"` // paragraphs; what they claim is what World shows
	Try   []Move   `json:"try"`  // what to move, and see
	World World    `json:"world"`
}

// Move is a change of a story's world that shows something.
type Move struct {
	Says  string `json:"says"`
	World World  `json:"world"`
}

// with is a world changed.
func (w World) with(change func(w *World)) World {
	change(&w)
	return w
}

// Stories returns all stories, in the order in which to tell them.
func Stories() []Story {
	return []Story{
		retryStorm(), spike(), queue(), shortTimeout(), layers(), blackHole(), gone(), rateLimit(), slowReplica(), hedge(), coldCache(), restart(),
	}
}

func retryStorm() Story {
	w := usual()
	open := w.with(func(w *World) { w.Budget, w.Breaker = 0, false })
	return Story{"retry-storm", "The retry storm", []string{
		"For ten seconds four of five answers are 503, and each costs the dependency as much as a good one. " +
			"Three tries at once make more requests than it can serve, so its queue fills, answers come after their callers have gone, and those try again.",
		"The outage ends at 25 s. For naive it does not: nearly all work is for callers who have gone. " +
			"Gabion's retries are paid by successes, so it asks for hardly more than plain does, and answers more.",
	}, []Move{
		{"No budget and no breaker for gabion, either", open},
		{"More capacity: 1,300/s", w.with(func(w *World) { w.Capacity = 1300 })},
	}, w}
}

func spike() Story {
	w := usual().with(func(w *World) { w.Trouble, w.Outage = Crowd, 2000 })
	return Story{"metastable", "Two seconds, and down for good", []string{
		"Nothing breaks here. For two seconds there are three times as many requests, and then all is as before: 400 a second for a dependency that can serve 600.",
		"Retries alone keep it down. Naive sends three requests for each that is needed, which is more than the capacity, so each of them comes too late and is sent again. " +
			"This is a metastable failure: what began it is over, and the outage feeds itself. Half a second of the same spike does no harm.",
		"Gabion is back, as plain is, which never tries again. Plain is back sooner.",
	}, []Move{
		{"Half a second", w.with(func(w *World) { w.Outage = 500 })},
		{"Capacity 900/s: no cure for naive", w.with(func(w *World) { w.Capacity = 900 })},
	}, w}
}

func queue() Story {
	w := usual().with(func(w *World) { w.Trouble, w.Outage, w.Queue = Slow, 3000, 600 })
	return Story{"long-queue", "The queue that is too long", []string{
		"For three seconds work takes ten times as long, and 600 requests wait. At 600 a second the last of them waits for a second; an attempt is given up after half of that.",
		"So the dependency works on what is of no use any more, and naive keeps the queue full. With 50 places it refuses at once what it can't serve in time, " +
			"and even naive comes back.",
	}, []Move{{"50 places", w.with(func(w *World) { w.Queue = 50 })}}, w}
}

func shortTimeout() Story {
	w := usual().with(func(w *World) { w.Trouble, w.Attempt = Nothing, 40 })
	return Story{"short-timeout", "The timeout that makes an outage", []string{
		"Nothing goes wrong here but a number: an attempt has 40 ms, and one in seven takes longer. Each that is cut off is done for nothing and sent again.",
		"Naive makes an outage of it that never ends: it answers nothing. Plain fails one call in seven. " +
			"Gabion waits before it tries again, and sends a fifth more: most calls are answered, some of them late.",
		"With 500 ms all four answer everything.",
	}, []Move{
		{"500 ms", w.with(func(w *World) { w.Attempt = 500 })},
		{"60 ms", w.with(func(w *World) { w.Attempt = 60 })},
		{"30 ms, no budget and no breaker", w.with(func(w *World) { w.Attempt, w.Budget, w.Breaker = 30, 0, false })},
	}, w}
}

func layers() Story {
	w := usual().with(func(w *World) { w.Layers, w.Share, w.Rate, w.Capacity = 3, 100, 100, 4000 })
	return Story{"layers", "Three layers of three tries", []string{
		"The front calls the middle, which calls the dependency, and each tries three times. For ten seconds the dependency answers only 503.",
		"Three times three times three: naive makes 27 requests of one, some 3,000 a second. With gabion in each layer the dependency gets fewer than two for one.",
		"Resilience4j's breakers open, stay open for a minute, and so this run ends before they ask again.",
	}, []Move{{"One layer", w.with(func(w *World) { w.Layers = 1 })}}, w}
}

func blackHole() Story {
	w := usual().with(func(w *World) { w.Trouble, w.Share = Swallow, 100 })
	return Story{"black-hole", "The black hole", []string{
		"Requests go in, and no answer comes out. Only a timeout ends an attempt, so each costs its caller half a second.",
		"Naive sends three times as many requests into the hole. The load of resilience4j's retries, each half a second later, is still there when it ends, and takes the dependency down for the rest of the run. " +
			"Gabion sends hardly more than plain, and answers a few calls more.",
	}, []Move{{"An attempt has two seconds: resilience4j comes back", w.with(func(w *World) { w.Attempt = 2000 })}}, w}
}

func gone() Story {
	w := usual().with(func(w *World) { w.Trouble, w.Outage = Down, 20_000 })
	return Story{"gone", "When no retry helps", []string{
		"Every connection is refused for twenty seconds, and refusing costs nothing. No client can answer what is asked in the middle of that.",
		"Here even naive does no harm but noise: three times the requests, for nothing. What gabion answers more than plain are calls near the end, which wait for up to four seconds.",
	}, []Move{{"A call has 20 s", w.with(func(w *World) { w.Call = 20_000 })}}, w}
}

func rateLimit() Story {
	w := usual().with(func(w *World) { w.Trouble = Limit })
	return Story{"rate-limit", "The vendor that throttles", []string{
		"A vendor lets 200 of 400 requests a second through, for ten seconds, and answers the others 429 with Retry-After: 2. " +
			"Whoever tries again waits for that long, and plain never tries again.",
		"Gabion paces what it sends, so the vendor has fewer requests at most. That has a price here: naive answers a little more, for more requests.",
	}, []Move{{"Twenty seconds", w.with(func(w *World) { w.Outage = 20_000 })}}, w}
}

func slowReplica() Story {
	w := usual().with(func(w *World) { w.Trouble, w.Replicas = Replica, 3 })
	return Story{"slow-replica", "One slow replica", []string{
		"One of three replicas takes ten times as long for ten seconds. A retry most likely meets another one: this is what retries are for.",
		"Everyone who retries answers more than plain. Naive answers most, since the two good replicas have room for all of its retries; gabion's budget leaves some calls without one.",
	}, []Move{
		{"A success earns a whole retry", w.with(func(w *World) { w.Budget = 100 })},
		{"No second attempt", w.with(func(w *World) { w.Attempts = 1 })},
	}, w}
}

func hedge() Story {
	w := usual().with(func(w *World) { w.Trouble, w.Hedge, w.Budget, w.Breaker = Nothing, 40, 0, false })
	return Story{"hedge", "The hedge that hurts", []string{
		"Nothing goes wrong here. Gabion sends a second attempt after 40 ms and takes the answer that comes first; its budget and its breaker are switched off.",
		"One in seven takes longer than that, so there is a little more load, answers take longer, and more of them need a hedge. In the end gabion makes three requests of one, " +
			"and answers half of its calls. The others answer all.",
		"The budget bounds hedges as it bounds retries: with it all calls are answered. But the slowest of a hundred takes longer than without hedges, for this dependency has one queue, and no other replica to ask.",
	}, []Move{
		{"With a budget", w.with(func(w *World) { w.Budget = 30 })},
		{"No hedge", w.with(func(w *World) { w.Hedge = 0 })},
	}, w}
}

func coldCache() Story {
	w := usual().with(func(w *World) {
		w.Trouble, w.Rate, w.Capacity, w.Queue, w.Outage, w.Attempt = Cold, 1000, 450, 600, 5000, 1000
	})
	return Story{"cold-cache", "The cold cache", []string{
		"A cache answers most of 1,000 reads a second, and the dependency behind it can serve 450. For five seconds the cache is down, and then it is back and empty.",
		"Now all reads go to the dependency. Its queue is longer than callers wait, so its answers come too late, and what comes too late fills no cache. " +
			"Even plain, which never tries again, stays down: the cache that is empty keeps itself empty.",
		"Gabion asks less of a dependency that answers nothing in time. What it asks for is answered, each answer fills the cache, and the load falls.",
	}, []Move{
		{"50 places in the queue: answers come in time, and all come back", w.with(func(w *World) { w.Queue = 50 })},
		{"The dependency can serve all reads", w.with(func(w *World) { w.Capacity = 1200 })},
	}, w}
}

func restart() Story {
	w := usual().with(func(w *World) { w.Trouble, w.Outage = Restart, 5000 })
	return Story{"restart", "Everything starts at once", []string{
		"Dependency and clients restart together. It is away for five seconds, and then slow for ten more, as after a deployment. Clients know nothing of before: breakers are closed, budgets are new.",
		"The herd that comes back is more than a slow dependency can serve. Naive and resilience4j never let it recover; gabion and plain do, in a quarter of a minute.",
	}, []Move{{"The dependency has twice the capacity", w.with(func(w *World) { w.Capacity = 1200 })}}, w}
}
