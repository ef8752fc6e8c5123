// Package play is the lab behind a page: a world with some twenty knobs, run under one
// policy at a time. It is the same program in a browser and on a machine of one's own.
//
// [Answer] takes a question and gives an answer, both in JSON.
package play

import (
	"fmt"
	"slices"
)

// World is what the page's knobs stand at. Times are milliseconds, shares are percent.
type World struct {
	Seed     int `json:"seed"`
	Clients  int `json:"clients"`
	Rate     int `json:"rate"`     // requests that clients want answered, per second
	Capacity int `json:"capacity"` // requests that the dependency can serve, per second
	Work     int `json:"work"`     // how long one takes, on average
	Queue    int `json:"queue"`    // how many may wait
	Replicas int `json:"replicas"` // share the capacity
	Layers   int `json:"layers"`   // services from the client to the dependency, each with its own policy

	Trouble Trouble `json:"trouble"`
	Outage  int     `json:"outage"` // how long the trouble lasts
	Share   int     `json:"share"`  // of requests that meet it, where it is of requests

	Call     int  `json:"call"`     // timeout of a call
	Attempt  int  `json:"attempt"`  // timeout of an attempt
	Attempts int  `json:"attempts"` // of a call, at most
	Budget   int  `json:"budget"`   // what a success earns of a retry; 0 is no budget
	Breaker  bool `json:"breaker"`
	Hedge    int  `json:"hedge"` // sends a second attempt after so long; 0 is off

	Opponent string `json:"opponent"`
}

// Trouble is what goes wrong.
type Trouble string

// The kinds of trouble. The dependency is at the end of the layers.
const (
	Nothing Trouble = "nothing"
	Errors  Trouble = "errors"  // a share of answers is 503, and costs as much as an answer
	Swallow Trouble = "swallow" // a share of requests has no answer
	Down    Trouble = "down"    // every connection is refused
	Slow    Trouble = "slow"    // work takes ten times as long
	Weak    Trouble = "weak"    // the capacity is two fifths
	Limit   Trouble = "limit"   // half of the rate is let through, the rest is 429 with Retry-After
	Crowd   Trouble = "crowd"   // three times as many requests
	Replica Trouble = "replica" // one replica takes ten times as long
	Cold    Trouble = "cold"    // a cache before the dependency is down, and then empty
	Restart Trouble = "restart" // dependency and clients restart, and work is slow for a while
)

// Choice is a value of a knob, and what it means.
type Choice struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

var troubles = []Choice{
	{string(Nothing), "nothing"},
	{string(Errors), "answers are 503"},
	{string(Swallow), "requests vanish"},
	{string(Down), "connections are refused"},
	{string(Slow), "work takes ten times as long"},
	{string(Weak), "two fifths of the capacity are left"},
	{string(Limit), "a rate limit of half the load: 429"},
	{string(Crowd), "three times the load"},
	{string(Replica), "one replica is ten times slower"},
	{string(Cold), "a cache is down, and then empty"},
	{string(Restart), "dependency and clients restart"},
}

// Knob is one that the page shows.
type Knob struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Unit  string `json:"unit"`
	Min   int    `json:"min"`
	Max   int    `json:"max"`
	Step  int    `json:"step"`
	Group string `json:"group"` // policy, clients, dependency, trouble

	of func(w *World) *int
}

// The limits keep a run of 60 s below some seconds of a browser's time.
var knobs = []Knob{
	{"attempts", "attempts, at most", "", 1, 10, 1, "policy", func(w *World) *int { return &w.Attempts }},
	{"budget", "budget: a success earns this of a retry", "%", 0, 100, 5, "policy", func(w *World) *int { return &w.Budget }},
	{"call", "timeout of a call", "ms", 50, 20_000, 50, "policy", func(w *World) *int { return &w.Call }},
	{"attempt", "timeout of an attempt", "ms", 10, 10_000, 10, "policy", func(w *World) *int { return &w.Attempt }},
	{"hedge", "a second attempt after (0: none)", "ms", 0, 1000, 10, "policy", func(w *World) *int { return &w.Hedge }},
	{"clients", "clients", "", 1, 5000, 1, "clients", func(w *World) *int { return &w.Clients }},
	{"rate", "requests that they need answered", "/s", 10, 1000, 10, "clients", func(w *World) *int { return &w.Rate }},
	{"layers", "services in a row, each with this policy", "", 1, 3, 1, "clients", func(w *World) *int { return &w.Layers }},
	{"capacity", "capacity", "/s", 10, 4000, 10, "dependency", func(w *World) *int { return &w.Capacity }},
	{"work", "time of a request, on average", "ms", 2, 500, 2, "dependency", func(w *World) *int { return &w.Work }},
	{"queue", "places in its queue", "", 0, 5000, 10, "dependency", func(w *World) *int { return &w.Queue }},
	{"replicas", "replicas", "", 1, 10, 1, "dependency", func(w *World) *int { return &w.Replicas }},
	{"outage", "it lasts", "ms", 500, 25_000, 500, "trouble", func(w *World) *int { return &w.Outage }},
	{"share", "requests that meet it", "%", 5, 100, 5, "trouble", func(w *World) *int { return &w.Share }},
	{"seed", "seed of all chance", "", 1, 9999, 1, "trouble", func(w *World) *int { return &w.Seed }},
}

// usual is where the knobs stand at first: an outage of ten seconds, with two thirds of
// the capacity in use before.
func usual() World {
	return World{
		Seed: 1, Clients: 1000, Rate: 400, Capacity: 600, Work: 20, Queue: 600, Replicas: 1, Layers: 1,
		Trouble: Errors, Outage: 10_000, Share: 80,
		Call: 4000, Attempt: 500, Attempts: 3, Budget: 30, Breaker: true,
		Opponent: "resilience4j",
	}
}

// check says which knob stands where it can't.
func (w *World) check() error {
	for _, k := range knobs {
		if v := *k.of(w); v < k.Min || v > k.Max {
			return fmt.Errorf("%s is %d: it may be from %d to %d", k.Name, v, k.Min, k.Max)
		}
	}
	if !slices.ContainsFunc(troubles, func(c Choice) bool { return c.Value == string(w.Trouble) }) {
		return fmt.Errorf("there is no trouble %.40q", w.Trouble)
	}
	if w.Attempt > w.Call {
		return fmt.Errorf("an attempt has %d ms and its call %d ms: an attempt can't have more", w.Attempt, w.Call)
	}
	if w.Hedge > w.Call {
		return fmt.Errorf("the second attempt begins after %d ms, and the call has %d ms", w.Hedge, w.Call)
	}
	return nil
}
