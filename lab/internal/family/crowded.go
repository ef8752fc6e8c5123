package family

import (
	"fmt"
	"time"
)

// Work of two humps: four of five are quick, and the fifth takes longer than the quick
// ones ever do. One in a hundred takes longer than half a second.
const (
	twoHumps = "80% lognormal 20ms/60ms | 20% lognormal 250ms/600ms"
	meanHump = 0.072
)

// humps are a service that loses capacity, under an attempt timeout that health never
// reaches and the queue does, which holds less than a call may take: what is cut off was
// nearly done, and is begun again.
func humps() (made []World) {
	add := func(f fleet, left int, attempt time.Duration, more string) {
		made = append(made, plan{
			name: fmt.Sprintf("humps-%s%s-%v", percent(left), more, f), group: "capacity gone", title: fmt.Sprintf("%d %% of the capacity for 2 min, and an attempt may take %s", left, length(attempt)),
			fleet: f, used: 0.8, work: twoHumps, mean: meanHump, waits: time.Second, strict: true, call: 3 * time.Second, attempt: attempt, duration: 4 * time.Minute,
			fault: fmt.Sprintf("kind: brown_out, service: db, at: 1m, for: 2m, factor: %s", number(float64(left)/100)),
		}.world())
	}
	many := fleet{100, 2}
	for _, left := range []int{25, 50, 75} {
		add(many, left, time.Second, "")
	}
	add(many, 50, 3*time.Second, "-attempt-3s")
	add(fleet{5, 20}, 50, time.Second, "")
	add(fleet{1000, 0.2}, 50, time.Second, "")
	return made
}

// creeping is capacity that goes slowly, and work that slowly takes longer, and both
// come back.
func creeping() (made []World) {
	for _, f := range usual {
		for _, k := range []struct{ name, says, fault string }{
			{"leak", "Capacity leaks for 90 s, to a third, and comes back", "kind: brown_out, factor: 0.33, ramp: 90s, for: 3m"},
			{"collapse", "Work takes longer for a minute, up to ten times, and comes back", "kind: slow, factor: 10, ramp: 1m, for: 2m"},
		} {
			made = append(made, plan{
				name: fmt.Sprintf("%s-%v", k.name, f), group: "capacity gone", title: fmt.Sprintf("%s; %d clients", k.says, f.clients),
				fleet: f, used: 0.6, work: twoHumps, mean: meanHump, waits: time.Second, strict: true, call: 3 * time.Second, duration: 5 * time.Minute,
				fault: k.fault + ", service: db, at: 1m",
			}.world())
		}
	}
	return made
}

// admitted is an admission that learns what it can let in.
const admitted = ", refuse_cost: 1%, admission: {limit: learned}"

// crowds are more calls than a service can answer, whose queue holds more than callers
// wait for, with and without an admission, and with two kinds of callers.
func crowds() (made []World) {
	for _, f := range []fleet{{5, 20}, {100, 2}} {
		for _, k := range []struct {
			name, says, service string
			bulk                bool
		}{
			{"overload", "nothing protects it", "", false},
			{"overload-admitted", "it has an admission", admitted, false},
			{"priorities", "two thirds are of low priority", ", order: priority", true},
			{"priorities-admitted", "two thirds are of low priority, and it has an admission", admitted, true},
		} {
			for _, times := range []float64{1.5, 3} {
				made = append(made, plan{
					name: fmt.Sprintf("%s-%s-%v", k.name, percent(int(100*times)), f), group: "overload of a long queue",
					title: fmt.Sprintf("The load is %s times as high for a minute, and %s", number(times), k.says),
					fleet: f, used: 0.85, waits: 5 * time.Second, strict: true, duration: 3 * time.Minute, load: fmt.Sprintf("{at: 1m, for: 1m, times: %s}", number(times)), service: k.service, bulk: k.bulk,
				}.world())
			}
		}
	}
	return made
}

// instances are services of several, of which one does not work.
func instances() (made []World) {
	f := fleet{100, 2}
	for _, n := range []int{2, 3, 10} {
		for _, k := range []struct{ name, says, fault string }{
			{"swallows", "swallows what it gets", "kind: black_hole"},
			{"fails", "fails what it gets", "kind: errors, status: 500"},
		} {
			made = append(made, plan{
				name: fmt.Sprintf("one-of-%d-%s-%v", n, k.name, f), group: "one of several", title: fmt.Sprintf("One of %d %s for a minute", n, k.says),
				fleet: f, replicas: n, duration: 3 * time.Minute, fault: k.fault + ", replicas: 1, service: db, at: 1m, for: 1m",
			}.world())
		}
	}
	return made
}

// deploys are instances that are replaced one after the other: what is under way breaks.
// To callers who do not tell instances apart it is the same one each time.
func deploys() (made []World) {
	for _, f := range []fleet{{5, 20}, {100, 2}} {
		for _, k := range []struct{ name, says, fault string }{
			{"resets", "breaks connections for 5 s", "kind: reset, for: 5s"},
			{"restarts", "is gone for 3 s and slow for 10 s", "kind: restart, for: 3s, ramp: 10s"},
		} {
			made = append(made, plan{
				name: fmt.Sprintf("deploy-%s-%v", k.name, f), group: "one of several", title: fmt.Sprintf("A deploy where one of four %s, four times; %d clients", k.says, f.clients),
				fleet: f, replicas: 4, duration: 4 * time.Minute, fault: k.fault + ", replicas: 1, service: db, at: 1m, every: 20s, until: 2m10s",
			}.world())
		}
	}
	return made
}

// halved are limits that are enough, and then are half of that: less than the load.
func halved() (made []World) {
	for _, f := range []fleet{{5, 20}, {100, 2}} {
		for _, c := range []struct{ name, says, told string }{{"", "nothing says when to come again", ""}, {"-said", "Retry-After says when to come again", ", retry_after: 2s"}} {
			made = append(made, plan{
				name: fmt.Sprintf("limit-halved%s-%v", c.name, f), group: "rate limit", title: fmt.Sprintf("A limit of 150 %% of the load is halved, and %s", c.says),
				fleet: f, duration: 3 * time.Minute, service: fmt.Sprintf(", limit: {rate: %s/s, burst: 40}", number(f.rate()*1.5)),
				fault: fmt.Sprintf("kind: rate_limit, service: db, at: 1m, for: 1m, limit: {rate: %s/s, burst: 20%s}", number(f.rate()*0.75), c.told),
			}.world())
		}
	}
	return made
}
