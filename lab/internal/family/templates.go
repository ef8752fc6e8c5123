package family

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A fleet is some clients and how many calls a second each makes.
type fleet struct {
	clients int
	each    float64
}

// The fleets: from a few busy ones to very many that hardly ever call.
var fleets = []fleet{{5, 20}, {5, 200}, {100, 2}, {1000, 0.2}, {10000, 0.1}}

// usual are those of which trouble of every length is tried.
var usual = []fleet{{5, 20}, {100, 2}, {1000, 0.2}}

func (f fleet) rate() float64  { return float64(f.clients) * f.each }
func (f fleet) String() string { return fmt.Sprintf("%dx%s", f.clients, number(f.each)) }

// trouble is the group of worlds in which trouble comes and goes.
func (f fleet) trouble() string {
	if f.each < 1 {
		return "sparse fleets"
	}
	return "trouble"
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// percent spells a share as names do.
func percent(share int) string { return strconv.Itoa(share) + "pct" }

// length spells a duration as files do.
func length(d time.Duration) string { return policy.FormatDuration(d) }

// plan is a scenario of one fleet and one service. What is left out is the usual.
type plan struct {
	name, group, title string
	fleet              fleet
	duration           time.Duration
	used               float64       // the share of the service's capacity that the load takes; 0 means 40 %
	work               string        // how long a piece of work takes
	mean               float64       // the same on average, in seconds
	waits              time.Duration // how long a request may wait in the service's queue; 0 means eight requests a worker
	replicas           int
	call, attempt      time.Duration // the timeouts; 0 means 5 s and 1 s
	strict             bool          // the last attempt of a call has no more time than others
	load               string        // a change of the load, or nothing
	service            string        // further settings of the service
	fault              string
	sdk                string // the policy of an SDK above that sends again what failed, or nothing
	bulk               bool   // two thirds of the load are of low priority, and one third of high
}

// warmup is how long nothing counts.
const warmup = 30 * time.Second

// The usual work is lognormal, a median of 20 ms and one in a hundred above 100 ms, and
// takes meanWork on average.
const (
	usualWork = "lognormal 20ms/100ms"
	meanWork  = 0.0254
)

// world writes a plan as a file.
func (p plan) world() World {
	p.used, p.work, p.mean = cmp.Or(p.used, 0.4), cmp.Or(p.work, usualWork), cmp.Or(p.mean, meanWork)
	p.call, p.attempt = cmp.Or(p.call, 5*time.Second), cmp.Or(p.attempt, time.Second)
	p.replicas = max(p.replicas, 1)
	workers := max(int(math.Ceil(p.fleet.rate()*p.mean/p.used/float64(p.replicas))), 2)
	queue := 8 * workers
	if p.waits > 0 {
		queue = int(float64(workers) * p.waits.Seconds() / p.mean)
	}
	if p.replicas > 1 {
		p.service = fmt.Sprintf(", replicas: %d%s", p.replicas, p.service)
	}
	last := ", last: off"
	if p.strict {
		last = ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\ntitle: %s\nstory: Generated. A family of scenarios varies one thing at a time.\n", p.title)
	fmt.Fprintf(&b, "duration: %s\nwarmup: %s\nclients:\n", length(p.duration), length(warmup))
	if p.bulk {
		p.clients(&b, "shop", p.fleet.rate()/3, ", priority: high")
		p.clients(&b, "bulk", p.fleet.rate()*2/3, ", priority: low")
	} else {
		p.clients(&b, "shop", p.fleet.rate(), "")
	}
	fmt.Fprintf(&b, "services:\n  db: {workers: %d, queue: %d, time: %s%s}\n", workers, queue, p.work, p.service)
	if p.sdk != "" {
		fmt.Fprintf(&b, "  sdk: {time: 10us%s, calls: [{to: db, network: exp 2ms}]}\n", each(p.fleet.clients))
	}
	fmt.Fprintf(&b, "policies:\n  db: {safe: true, timeout: {call: %s, attempt: %s%s}}\n", length(p.call), length(p.attempt), last)
	if p.sdk != "" {
		fmt.Fprintf(&b, "  sdk: %s\n", p.sdk)
	}
	b.WriteString("against: none\n")
	if p.fault != "" {
		fmt.Fprintf(&b, "faults:\n  - {%s}\n", p.fault)
	}
	return World{Name: p.name, Group: p.group, Text: b.String()}
}

// clients writes a fleet.
func (p plan) clients(b *strings.Builder, name string, rate float64, more string) {
	fmt.Fprintf(b, "  %s:\n    count: %d\n    rate: %s/s\n", name, p.fleet.clients, number(rate))
	if p.load != "" {
		fmt.Fprintf(b, "    load: [%s]\n", p.load)
	}
	to := "to: db, network: exp 2ms"
	deadline := p.call
	if p.sdk != "" {
		to, deadline = "to: sdk, fixed: true", 2*p.call
	}
	fmt.Fprintf(b, "    deadline: %s\n    calls: [{%s%s}]\n", length(deadline), to, more)
}

// each makes a service have a replica for each client.
func each(clients int) string {
	if clients < 2 {
		return ""
	}
	return fmt.Sprintf(", replicas: %d", clients)
}

// shares are those of errors that never end.
var shares = []int{1, 5, 10, 30, 50, 80, 90, 100}

// steady are errors from the beginning to the end.
func steady() (made []World) {
	add := func(f fleet, share int, lasts time.Duration) {
		made = append(made, plan{
			name: fmt.Sprintf("steady-%s-%v", percent(share), f), group: "steady errors", title: fmt.Sprintf("%d %% errors for ever, %d clients", share, f.clients),
			fleet: f, duration: lasts, fault: fmt.Sprintf("kind: errors, service: db, at: 1s, for: %s, share: %d%%, status: 503", length(lasts-time.Second), share),
		}.world())
	}
	for _, f := range fleets {
		lasts := 4 * time.Minute
		if f.rate() > 500 {
			lasts = 2 * time.Minute
		}
		for _, share := range shares {
			add(f, share, lasts)
		}
	}
	for _, share := range []int{5, 30} { // a call a minute: no other call pays for its retries
		add(fleet{1, 0.02}, share, 12*time.Hour)
	}
	return made
}

// lengths are those of trouble.
var lengths = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 10 * time.Minute}

// troubles begin and end.
func troubles() (made []World) {
	kinds := []struct {
		name, says, fault string
		fleets            []fleet
	}{
		{"down", "connections are refused", "kind: down", usual},
		{"black-hole", "requests vanish", "kind: black_hole", usual},
		{"errors-100pct", "all answers are errors", "kind: errors, status: 503", usual},
		{"errors-50pct", "half of the answers are errors", "kind: errors, status: 503, share: 50%", usual[1:2]},
		{"slow", "work takes thirty times as long", "kind: slow, factor: 30", usual[1:2]},
	}
	for _, k := range kinds {
		for _, lasts := range lengths {
			for _, f := range k.fleets {
				made = append(made, plan{
					name: fmt.Sprintf("%s-%s-%v", k.name, length(lasts), f), group: f.trouble(), title: fmt.Sprintf("For %s, %s; %d clients", length(lasts), k.says, f.clients),
					fleet: f, duration: 2*time.Minute + lasts, fault: fmt.Sprintf("%s, service: db, at: 1m, for: %s", k.fault, length(lasts)),
				}.world())
			}
		}
	}
	return made
}

// flaps go and come.
func flaps() (made []World) {
	for _, f := range usual {
		for _, gone := range []time.Duration{time.Second, 3 * time.Second} {
			made = append(made, plan{
				name: fmt.Sprintf("flap-%s-of-10s-%v", length(gone), f), group: f.trouble(), title: fmt.Sprintf("Gone for %s of every 10 s; %d clients", length(gone), f.clients),
				fleet: f, duration: 4 * time.Minute, fault: fmt.Sprintf("kind: down, service: db, at: 1m, for: %s, every: 10s, until: 3m", length(gone)),
			}.world())
		}
	}
	return made
}

// overloads are more load than can be served, or less capacity than is needed.
func overloads() (made []World) {
	f := fleet{100, 2}
	for _, times := range []float64{1.5, 2, 4} {
		made = append(made, plan{
			name: fmt.Sprintf("spike-%s-%v", percent(int(100*times)), f), group: "overload", title: fmt.Sprintf("The load is %s times as high for a minute", number(times)),
			fleet: f, used: 0.7, duration: 3 * time.Minute, load: fmt.Sprintf("{at: 1m, for: 1m, times: %s}", number(times)),
		}.world())
	}
	for _, left := range []int{25, 50, 75} {
		made = append(made, plan{
			name: fmt.Sprintf("brown-out-%s-%v", percent(left), f), group: "overload", title: fmt.Sprintf("A service has %d %% of its capacity for a minute", left),
			fleet: f, used: 0.8, duration: 3 * time.Minute, fault: fmt.Sprintf("kind: brown_out, service: db, at: 1m, for: 1m, factor: %s", number(float64(left)/100)),
		}.world())
	}
	return made
}

// costs are errors of a service that is rather busy: cheap ones, and ones that cost as
// much as an answer, so that each retry takes away what others need.
func costs() (made []World) {
	f := fleet{100, 2}
	for _, share := range []int{10, 30, 60, 100} {
		for _, c := range []struct{ name, says, fault string }{
			{"nothing", "cost nothing", ""},
			{"work", "come when the work is done", ", after_work: true"},
		} {
			made = append(made, plan{
				name: fmt.Sprintf("cost-%s-%s-%v", c.name, percent(share), f), group: "cost of errors", title: fmt.Sprintf("%d %% errors for a minute, and they %s", share, c.says),
				fleet: f, used: 0.85, duration: 3 * time.Minute, fault: fmt.Sprintf("kind: errors, service: db, at: 1m, for: 1m, share: %d%%, status: 503%s", share, c.fault),
			}.world())
		}
	}
	for _, cost := range []int{10, 50} {
		made = append(made, plan{
			name: fmt.Sprintf("cost-refusing-%s-%v", percent(cost), f), group: "cost of errors", title: fmt.Sprintf("Refusing costs %d %% of the work, and the load doubles", cost),
			fleet: f, used: 0.7, duration: 3 * time.Minute, load: "{at: 1m, for: 1m, times: 2}", service: fmt.Sprintf(", refuse_cost: %d%%", cost),
		}.world())
	}
	return made
}

// limits are rate limits below the load, with and without a word of when to come again.
func limits() (made []World) {
	for _, f := range []fleet{{100, 2}, {1000, 0.2}} {
		for _, share := range []int{50, 80} {
			for _, c := range []struct{ name, fault string }{{"", ""}, {"-said", ", retry_after: 2s"}} {
				made = append(made, plan{
					name: fmt.Sprintf("limit-%s%s-%v", percent(share), c.name, f), group: "rate limit", title: fmt.Sprintf("A limit of %d %% of the load for a minute; %d clients", share, f.clients),
					fleet: f, duration: 3 * time.Minute, fault: fmt.Sprintf("kind: rate_limit, service: db, at: 1m, for: 1m, limit: {rate: %s/s, burst: 20%s}", number(f.rate()*float64(share)/100), c.fault),
				}.world())
			}
		}
	}
	return made
}
