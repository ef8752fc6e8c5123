package past

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Naming says which series of others a replay reads, where their names can't be known. The zero Naming is that of the usual exporters.
type Naming struct {
	Requests  string // a counter of requests; empty where the histogram counts them
	Durations string // a histogram; seconds, unless its name ends in _milliseconds or _ms
	Status    string // the label that says how a request ended
	By        string // the label that names the dependency
}

// family are the series by which an exporter tells of a client's requests. Its histogram may be in a file as
// _bucket series or native.
type family struct {
	counter, histogram string
	status, by         []string // the labels, the first that a series has; Istio says 200 of all that gRPC answers
	unit               float64  // of the histogram, in seconds
}

var families = []family{
	{"", "http_client_request_duration_seconds", []string{"http_response_status_code"}, []string{"server_address"}, 1},
	{"", "http_client_duration_milliseconds", []string{"http_status_code", "http_response_status_code"}, []string{"server_address", "net_peer_name"}, 1e-3},
	{"grpc_client_handled_total", "grpc_client_handling_seconds", []string{"grpc_code"}, []string{"grpc_service"}, 1},
	{"", "grpc_client_call_duration_seconds", []string{"grpc_status"}, []string{"grpc_target"}, 1},
	{"", "rpc_client_duration_milliseconds", []string{"rpc_grpc_status_code"}, []string{"rpc_service"}, 1e-3},
	{"istio_requests_total", "istio_request_duration_milliseconds", []string{"grpc_response_status", "response_code"}, []string{"destination_service_name", "destination_service"}, 1e-3},
}

// familiesOf are those that options name, or the usual ones.
func familiesOf(o *Options) []family {
	n := o.Naming
	if n.Requests == "" && n.Durations == "" {
		if n.Status == "" && n.By == "" {
			return families
		}
		all := slices.Clone(families)
		for i := range all {
			if n.Status != "" {
				all[i].status = []string{n.Status}
			}
			if n.By != "" {
				all[i].by = []string{n.By}
			}
		}
		return all
	}
	f := family{counter: n.Requests, histogram: strings.TrimSuffix(n.Durations, "_bucket"), status: []string{cmp.Or(n.Status, "code")}, by: []string{n.By}, unit: 1}
	switch {
	case strings.HasSuffix(f.histogram, "_milliseconds"), strings.HasSuffix(f.histogram, "_ms"):
		f.unit = 1e-3
	case strings.HasSuffix(f.histogram, "_microseconds"):
		f.unit = 1e-6
	}
	return []family{f}
}

// name is how messages call it.
func (f *family) name() string { return cmp.Or(f.counter, f.histogram) }

// query is what to ask Prometheus for.
func (f *family) query(of string) string {
	var names []string
	for _, name := range []string{f.counter, f.histogram} {
		if name != "" {
			names = append(names, name)
		}
	}
	more := ""
	if f.by[0] != "" && of != "" {
		more = fmt.Sprintf(",%s=%q", f.by[0], of)
	}
	if f.counter == "istio_requests_total" {
		more += `,reporter="source"`
	}
	return fmt.Sprintf(`query={__name__=~"(%s)(_bucket)?"%s}`, strings.Join(names, "|"), more)
}

// The same things, counted by the buckets of a histogram: they count where no counter does.
const fromBuckets = "counted by buckets: "

// ofStatus are the statuses of requests that failed, where no retry tells of them.
const ofStatus = "statuses"

// foreign adds a series of others, if it is one.
func (d *rangeData) foreign(s *series) {
	name := s.Metric["__name__"]
	for i, f := range d.families {
		base := strings.TrimSuffix(name, "_bucket")
		if name != f.counter && base != f.histogram || name == "" {
			if d.strange == nil {
				d.strange = map[string]bool{}
			}
			d.strange[name] = true
			continue
		}
		if s.Metric["reporter"] == "destination" {
			d.servers = true // what the server's side saw, once more
			return
		}
		if d.others == nil {
			d.others = map[int]*rangeData{}
		}
		if d.others[i] == nil {
			d.others[i] = &rangeData{o: d.o, scrapes: map[int64]scrape{}, names: map[string]bool{}, instances: lives{}, odd: map[string]bool{}, seen: map[string]bool{}, of: &d.families[i]}
		}
		d.others[i].request(s, &f, name == f.counter)
		return
	}
}

// request adds a series that counts requests.
func (d *rangeData) request(s *series, f *family, counter bool) {
	_, of := first(s.Metric, f.by)
	if of == "" {
		if f.by[0] != "" {
			return
		}
		of = cmp.Or(d.o.Dependency, "requests")
	}
	if !d.takes(of) {
		return
	}
	d.instances.all(s)
	label, status := first(s.Metric, f.status)
	result, ok := resultOf(status, s.Metric)
	d.seen[ofCalls] = d.seen[ofCalls] || counter
	if !ok {
		if !counter && status == "" { // one histogram for all
			d.mixed = true
			d.latencies(s, f, "success", "failure")
			return
		}
		d.odd[label+"="+strconv.Quote(status)] = true
		return
	}
	if counter {
		d.requests(s.Values, "", result, status)
		return
	}
	took := "failure"
	if outcomes[result] != "failed" && outcomes[result] != "canceled" {
		took = "success"
	}
	d.latencies(s, f, took)
	if le := s.Metric["le"]; le == "+Inf" || le == "Inf" {
		d.requests(s.Values, fromBuckets, result, status)
	}
	var all []sample
	for _, h := range s.Histograms {
		n := 0.0
		for _, b := range h.buckets {
			n += b.n
		}
		all = append(all, sample{h.at, n})
	}
	d.requests(all, fromBuckets, result, status)
}

// first is the first of some labels that a series has.
func first(labels map[string]string, names []string) (name, value string) {
	for _, name := range names {
		if v := labels[name]; v != "" {
			return name, v
		}
	}
	return names[0], ""
}

// requests counts requests as calls with one attempt.
func (d *rangeData) requests(all []sample, by, result, status string) {
	keys := []key{{what: by + ofCalls, label: outcomes[result], low: -1}, {what: by + ofAttempts, label: result, low: -1}}
	if result == "server" {
		keys = append(keys, key{what: by + ofStatus, label: status, low: -1})
	}
	for _, k := range keys {
		d.values(all, k)
	}
}

// latencies adds a histogram to those of calls and of attempts.
func (d *rangeData) latencies(s *series, f *family, results ...string) {
	d.seen[tryTook] = true
	high, err := strconv.ParseFloat(s.Metric["le"], 64)
	for _, result := range results {
		for _, what := range [2]string{callTook, tryTook} {
			k := key{what: what, label: result, low: -1}
			if err == nil && !math.IsNaN(high) {
				k.high = high * f.unit
				d.values(s.Values, k)
			}
			scaled := make([]native, len(s.Histograms))
			for i, h := range s.Histograms {
				scaled[i].at = h.at
				for _, b := range h.buckets {
					scaled[i].buckets = append(scaled[i].buckets, bucket{b.low * f.unit, b.high * f.unit, b.n})
				}
			}
			d.histograms(scaled, k)
		}
	}
}

// outcomes are the ends of calls whose only attempt had a result.
var outcomes = map[string]string{
	"success": "ok", "client": "not_retryable", "ignored": "canceled",
	"throttled": "failed", "server": "failed", "timeout": "failed", "network": "failed",
}

var (
	timeoutName  = regexp.MustCompile(`(?i)timeout|deadline`)
	canceledName = regexp.MustCompile(`(?i)cancel`)
	// Envoy's flags of an answer that it made itself.
	flags = map[string]string{"UT": "timeout", "UF": "network", "UC": "network", "UH": "network", "NR": "network", "DC": "ignored"}
	// The codes of gRPC by their numbers.
	grpcCodes = []string{
		"ok", "cancelled", "unknown", "invalidargument", "deadlineexceeded", "notfound", "alreadyexists", "permissiondenied", "resourceexhausted",
		"failedprecondition", "aborted", "outofrange", "unimplemented", "internal", "unavailable", "dataloss", "unauthenticated",
	}
	words = map[string]string{
		"ok": "success", "success": "success", "true": "success", "canceled": "ignored", "cancelled": "ignored", "timeout": "timeout", "deadlineexceeded": "timeout",
		"resourceexhausted": "throttled", "throttled": "throttled", "unavailable": "server", "unknown": "server", "internal": "server", "dataloss": "server",
		"error": "server", "failure": "server", "failed": "server", "false": "server", "network": "network",
	}
)

// resultOf is what a status says, of HTTP, of gRPC or in a word. Without one an error's type says it.
func resultOf(status string, labels map[string]string) (result string, ok bool) {
	for flag := range strings.SplitSeq(labels["response_flags"], ",") {
		if result, ok = flags[flag]; ok {
			return result, true
		}
	}
	word := strings.ToLower(strings.ReplaceAll(status, "_", ""))
	n, err := strconv.Atoi(strings.TrimSuffix(word, "xx"))
	if err == nil && strings.HasSuffix(word, "xx") {
		n *= 100
	}
	switch {
	case status == "" && labels["error_type"] != "":
		switch what := labels["error_type"]; {
		case timeoutName.MatchString(what):
			return "timeout", true
		case canceledName.MatchString(what):
			return "ignored", true
		}
		return "network", true
	case err == nil && n == 429:
		return "throttled", true
	case err == nil && n >= 100 && n < 400:
		return "success", true
	case err == nil && n >= 400 && n < 500:
		return "client", true
	case err == nil && n >= 500 && n < 600:
		return "server", true
	case err == nil && n == 0 && labels["response_flags"] != "":
		return "network", true
	case err == nil && n >= 0 && n < len(grpcCodes):
		word = grpcCodes[n]
	}
	if result, ok = words[word]; !ok && slices.Contains(grpcCodes, word) {
		return "client", true
	}
	return result, ok
}

// chosen is the data that tells of the dependency: of gabionprom, else of others.
func (d *rangeData) chosen() (*rangeData, error) {
	if len(d.names) > 0 {
		return d, nil
	}
	var all []*rangeData
	var names []string
	for _, i := range slices.Sorted(maps.Keys(d.others)) {
		if other := d.others[i]; len(other.names) > 0 {
			all, names = append(all, other), append(names, other.of.name())
		}
	}
	switch {
	case len(all) > 1:
		return nil, fmt.Errorf("%s has requests of %s, which may be the same ones: ask for one of them, such as %s", d.o.Name, strings.Join(names, " and of "), all[0].of.query(""))
	case len(all) == 1:
		all[0].fold()
		return all[0], nil
	case len(d.others) > 0:
		for _, other := range d.others {
			return nil, fmt.Errorf("%s: no series of %s has the label %s, which names the dependency: name another with --by", d.o.Name, other.of.name(), other.of.by[0])
		}
	case d.servers:
		return nil, fmt.Errorf("%s has only what the servers' side counted: ask for reporter=\"source\", as %s", d.o.Name, families[len(families)-1].query(""))
	case d.nameless:
		return nil, fmt.Errorf("%s: %w", d.o.Name, errNameless)
	}
	if delete(d.strange, ""); len(d.strange) > 0 {
		return nil, fmt.Errorf("%s has none of gabionprom's series, nor of an exporter that is known: it has %s; name a counter with --requests, a histogram with --durations, and their labels with --status and --by",
			d.o.Name, some(slices.Sorted(maps.Keys(d.strange))))
	}
	return nil, fmt.Errorf("%s has none of gabionprom's series: ask for query={__name__=~\"gabion_.+\"}, or for requests, as %s", d.o.Name, families[0].query(""))
}

// fold takes the counts of buckets for those of a counter, if there is no counter.
func (d *rangeData) fold() {
	counter := d.seen[ofCalls]
	fold := func(k key) (key, bool) {
		what, of := strings.CutPrefix(k.what, fromBuckets)
		k.what = what
		return k, of
	}
	for _, s := range d.scrapes {
		for k, n := range maps.Clone(s) {
			if to, of := fold(k); of {
				if delete(s, k); !counter {
					s[to] += n
				}
			}
		}
	}
	starts := d.starts[:0]
	for _, s := range d.starts {
		var of bool
		if s.of, of = fold(s.of); !of || !counter {
			starts = append(starts, s)
		}
	}
	d.starts = starts
	d.seen[ofCalls] = true
	d.seen[ofAttempts], d.seen[callTook] = true, d.seen[tryTook]
}

// lacks says what is missing, and what to ask for.
func (d *rangeData) lacks(name string) error {
	query := fmt.Sprintf(`query={__name__=~"gabion_.+",dependency=%q}`, name)
	if d.of != nil {
		query = d.of.query(name)
		if d.of.histogram == "" {
			query = "a histogram of durations as well, and name it with --durations"
		}
		if len(d.odd) > 0 {
			return fmt.Errorf("%s: %s is neither a status of HTTP or gRPC, nor a word for success or failure: name the label that has it with --status", d.o.Name, some(slices.Sorted(maps.Keys(d.odd))))
		}
	}
	for _, part := range []struct{ of, what string }{
		{ofCalls, "how many calls there were"}, {ofAttempts, "what their attempts met"}, {tryTook, "how long attempts took"}, {callTook, "how long calls took"},
	} {
		if !d.seen[part.of] {
			lacking := part.of
			if d.of != nil {
				lacking = cmp.Or(d.of.histogram, "a histogram")
			}
			return fmt.Errorf("%s does not say %s: %s is missing: ask for %s", d.o.Name, part.what, lacking, query)
		}
	}
	return nil
}
