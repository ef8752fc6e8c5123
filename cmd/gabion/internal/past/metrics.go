package past

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// errNameless is that Prometheus was asked for what it calculated.
var errNameless = errors.New(`the series have no names, as those of rate() and sum(): ask for the counters themselves: query={__name__=~"gabion_.+",dependency="payments"}`)

// readRange reads what Prometheus answers to /api/v1/query_range, of gabionprom's series or of others'.
func readRange(in io.Reader, o Options) (*Past, error) {
	read := &rangeData{o: o, scrapes: map[int64]scrape{}, names: map[string]bool{}, instances: lives{}, seen: map[string]bool{}, families: familiesOf(&o)}
	if err := read.decode(in); err != nil {
		return nil, err
	}
	d, err := read.chosen()
	if err != nil {
		return nil, err
	}
	name, err := o.choose(slices.Sorted(maps.Keys(d.names)))
	if err != nil {
		return nil, err
	}
	times, err := d.part()
	if err != nil {
		return nil, err
	}
	if len(times) < 4 {
		return nil, fmt.Errorf("%s has %d points in time, and a replay needs at least 4: ask for a longer time, or a smaller step", o.Name, len(times))
	}
	if err := d.lacks(name); err != nil {
		return nil, err
	}
	p := &Past{Kind: "metrics over time", Dependency: name, Clients: d.instances.atOnce(times[0], times[len(times)-1]), Begin: time.UnixMilli(times[0]).UTC()}
	m := &meter{Past: p, step: stepOf(times), foreign: d.of != nil}
	if m.foreign {
		p.Notes = append(p.Notes, fmt.Sprintf("each request that %s counts is taken for a call, so what was in force must be a policy without retries", d.of.name()))
	}
	if d.mixed {
		p.Notes = append(p.Notes, fmt.Sprintf("%s does not tell answers from failures, so both are taken to be as fast", d.of.histogram))
	}
	before := time.Duration(0)
	for _, at := range times[1:] {
		end := time.Duration(at-times[0]) * time.Millisecond
		m.steps = append(m.steps, d.scrapes[at])
		m.at = append(m.at, max(end-m.step, before)) // after a gap, at its end
		m.long = append(m.long, end-m.at[len(m.at)-1])
		before = end
	}
	return m.develop(&o)
}

// part are the times that are meant.
func (d *rangeData) part() ([]int64, error) {
	all := d.times()
	if len(all) == 0 {
		return nil, nil
	}
	from, err := d.o.from(all[0] * 1e6)
	if err != nil {
		return nil, err
	}
	lo := sort.Search(len(all), func(k int) bool { return all[k]*1e6 >= from })
	all = all[lo:]
	if d.o.For > 0 && len(all) > 0 {
		all = all[:sort.Search(len(all), func(k int) bool { return all[k] > all[0]+d.o.For.Milliseconds() })]
	}
	return all, nil
}

// stepOf is the usual time between two.
func stepOf(times []int64) time.Duration {
	var between []int64
	for i := range times[1:] {
		between = append(between, times[i+1]-times[i])
	}
	slices.Sort(between)
	return time.Duration(between[len(between)/2]) * time.Millisecond
}

// meter makes calls of counters.
type meter struct {
	*Past
	step  time.Duration
	at    []time.Duration // when the steps begin
	long  []time.Duration
	steps []scrape
	part  float64 // of the calls, those that are replayed
	rest  float64

	unlimited bool // no attempt is throttled
	fine      bool // histograms are native
	foreign   bool // an exporter's that knows requests and no calls
	draws     *rand.Rand
}

// what an attempt met, with its weight.
type fate struct {
	status int
	n      float64
	took   cells // nil means that no answer came
}

func (m *meter) develop(o *Options) (*Past, error) {
	calls := 0.0
	for _, s := range m.steps {
		calls += s.sum(ofCalls, nil)
	}
	if calls < 1 {
		return nil, o.none(m.Dependency)
	}
	if err := m.choose(calls); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	m.draws = rand.New(rand.NewPCG(1, 2)) // the same calls each time
	network := 0
	for _, s := range m.steps {
		for k, n := range s {
			m.fine = m.fine || k.high > 0 && k.low >= 0
			if k.what == ofRetries && n > 0 {
				m.Repeated = m.Repeated || k.label != "network" && k.label != "429" && k.label != "throttled"
			}
		}
	}
	if !m.Repeated && !m.foreign { // of others' it is not known
		network = Refused
	}
	m.rows(network)
	if len(m.Rows) == 0 {
		return nil, o.none(m.Dependency)
	}
	if m.count(int(calls)); !m.fine {
		m.Notes = append(m.Notes, "latencies are known to a classic bucket, which is up to 2.5 times as wide as it is long, so a p99 may be off by as much as 25 %: native histograms tell more")
	}
	m.limit(network)
	return m.Past, nil
}

// rows makes the calls of all steps.
func (m *meter) rows(network int) {
	told := make([][]fate, len(m.steps))
	for i, s := range m.steps {
		told[i] = m.tells(s, network)
	}
	for i := range m.steps {
		m.calls(i, m.fates(i, told))
	}
}

// choose leaves out processes, with their calls, where there are more calls than a scenario takes.
func (m *meter) choose(calls float64) error {
	m.part = 1
	for calls*m.part > maxCalls {
		k := math.Ceil(calls / maxCalls)
		if float64(m.Clients) < k {
			return &tooManyError{time.Duration(maxCalls / calls * float64(m.at[len(m.at)-1]))}
		}
		kept := int(float64(m.Clients) / k)
		m.Notes = append(m.Notes, fmt.Sprintf("there are more calls than a scenario takes: it has %d of the %d processes, with their share of the calls", kept, m.Clients))
		m.part, m.Clients = float64(kept)/float64(m.Clients), kept
	}
	return nil
}

// sum is what was counted under a name, of labels that fit.
func (s scrape) sum(what string, fits func(label string) bool) (n float64) {
	for k, x := range s {
		if k.what == what && (fits == nil || fits(k.label)) {
			n += x
		}
	}
	return n
}

// fates are what attempts met in a step, or in the nearest one that tells.
func (m *meter) fates(i int, told [][]fate) []fate {
	for d := range len(m.steps) {
		for _, k := range [2]int{i - d, i + d} {
			if k >= 0 && k < len(m.steps) {
				if len(told[k]) > 0 && d > 0 {
					m.Guessed += int(m.steps[i].sum(ofCalls, nil) * m.part)
				}
				if len(told[k]) > 0 {
					return told[k]
				}
			}
		}
	}
	return nil
}

// tells are what first attempts met in a step. Where few calls sent one, as a breaker's probes do,
// only failures tell what the others would have met.
func (m *meter) tells(s scrape, network int) (all []fate) {
	calls := s.sum(ofCalls, nil)
	fails := s.histogram(tryTook, "failure")
	cutOff := s[key{ofAttempts, "timeout", -1, 0}] + s[key{ofRepeats, "timeout", -1, 0}]
	if n := fails.count(); n > 0 { // those that were cut off took longest
		fails = fails.below(1 - min(cutOff/n, 1))
	}
	sent := 0.0
	for k, n := range s {
		if k.what != ofAttempts || n <= 0 {
			continue
		}
		f := fate{n: n, took: fails}
		switch k.label {
		case "ignored", "rejected", "crashed":
			continue
		case "throttled":
			if f.status = 429; m.unlimited {
				continue
			}
		case "success", "client", "business":
			f.status, f.took = 200, s.histogram(tryTook, "success")
		case "network":
			f.status = network
		case "timeout":
			f.status, f.took = 200, nil
		case "server":
			f.status = s.server()
		case "contention":
			f.status = 502
		default:
			f.status = 500
		}
		sent += n
		all = append(all, f)
	}
	if 2*sent < calls && !m.unlimited {
		all = slices.DeleteFunc(all, func(f fate) bool { return f.status == 200 && f.took != nil })
	}
	slices.SortFunc(all, func(a, b fate) int { return a.status*2 - b.status*2 + len(a.took) - len(b.took) })
	return all
}

// server is the status that was repeated most, as far as one was.
func (s scrape) server() int {
	status, most := 503, 0.0
	for _, k := range [...]string{"500", "502", "503", "504", "529"} {
		if n := s[key{ofRetries, k, -1, 0}] + s[key{ofStatus, k, -1, 0}]; n > most {
			status, most = int(k[0]-'0')*100+int(k[1]-'0')*10+int(k[2]-'0'), n
		}
	}
	return status
}

// below is the shorter part.
func (c cells) below(share float64) (all cells) {
	left := share * c.count()
	for _, b := range c {
		if b.n = min(b.n, left); b.n > 0 {
			all = append(all, b)
			left -= b.n
		}
	}
	return all
}

// calls makes the calls of a step: as many as were counted, at any time of it, with fates in
// proportion.
func (m *meter) calls(i int, all []fate) {
	m.rest += m.steps[i].sum(ofCalls, nil) * m.part
	n := int(m.rest)
	m.rest -= float64(n)
	if n == 0 {
		return
	}
	rows := make([]Row, 0, n)
	sum, upTo := 0.0, 0.0
	for _, f := range all {
		sum += f.n
	}
	for _, f := range all {
		upTo += f.n
		many := int(math.Round(upTo/sum*float64(n))) - len(rows)
		for k := range many {
			row := Row{Status: f.status, Took: hang}
			if f.took != nil {
				row.Took = f.took.quantile((float64(k) + m.draws.Float64()) / float64(many))
			} else {
				m.Hung++
			}
			rows = append(rows, row)
		}
	}
	m.draws.Shuffle(len(rows), func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
	for k := range rows {
		rows[k].At = m.at[i] + time.Duration((float64(k)+m.draws.Float64())/float64(len(rows))*float64(m.long[i]))
	}
	m.Rows = append(m.Rows, sorted(rows)...)
}

// count counts in bins of whole steps.
func (m *meter) count(calls int) {
	span := m.at[len(m.at)-1] + m.long[len(m.at)-1]
	m.Width = (widthFor(span, calls) + m.step - 1) / m.step * m.step
	merged := make([]scrape, (span+m.Width-1)/m.Width)
	whole := scrape{}
	for i, s := range m.steps {
		k := int(m.at[i] / m.Width)
		if merged[k] == nil {
			merged[k] = scrape{}
		}
		for of, n := range s {
			merged[k][of] += n
			whole[of] += n
		}
	}
	for _, s := range merged {
		m.Bins = append(m.Bins, s.bin())
	}
	m.Whole = whole.bin()
	m.Left = int(whole[key{ofCalls, "canceled", -1, 0}] * m.part)
}

// bin is what was counted.
func (s scrape) bin() (b Bin) {
	b.Ended = int(math.Round(s.sum(ofCalls, func(outcome string) bool { return outcome != "canceled" })))
	b.Answered = int(math.Round(s.sum(ofCalls, func(outcome string) bool { return outcome == "ok" || outcome == "not_retryable" })))
	b.Attempts = int(math.Round(s.sum(ofAttempts, nil) + s.sum(ofRepeats, nil)))
	took := s.histogram(callTook, "success")
	b.latencies(took.quantile)
	return b
}
