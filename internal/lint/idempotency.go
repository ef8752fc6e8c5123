package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/facts"
)

// idempotencyRules are about what files say of the routes and stores of programs.
var idempotencyRules = []Rule{
	{ID: "G050", Name: "forgets-too-soon", Severity: Warning, graph: routes(routeFact.retention),
		Title: "a result is forgotten while clients may still repeat the request"},
	{ID: "G051", Name: "lease-too-short", Severity: Warning, graph: routes(routeFact.lease),
		Title: "a run that lives may be taken for lost"},
	{ID: "G052", Name: "repeated-without-key", Severity: Warning, graph: routes(routeFact.key),
		Title: "clients repeat requests of a route that changes something, and no key is needed"},
	{ID: "G053", Name: "guarantee-not-said", Severity: Warning, graph: routes(routeFact.guarantee),
		Title: "a route does not say what may happen to a run that was lost"},
	{ID: "G054", Name: "scope-global", Severity: Warning, graph: routes(routeFact.scope),
		Title: "all callers share one space of keys"},
	{ID: "G055", Name: "store-evicts", Severity: Warning, graph: stores(storeFact.evicts),
		Title: "Redis may drop records to make room"},
	{ID: "G056", Name: "redis-not-durable", Severity: Warning, graph: stores(storeFact.syncsRedis),
		Title: "Redis acknowledges records before they are on disk"},
	{ID: "G057", Name: "store-ring", Severity: Warning, graph: stores(storeFact.ring),
		Title: "a ring of Redis servers moves keys to servers that do not know them"},
	{ID: "G058", Name: "nats-not-durable", Severity: Warning, graph: stores(storeFact.syncsNATS),
		Title: "NATS acknowledges records before they are on disk, or keeps them on one server"},
	{ID: "G059", Name: "streams-with-keys", Severity: Warning, graph: routes(routeFact.streaming),
		Title: "a route with keys streams its answers"},
	{ID: "G060", Name: "compressed-inside", Severity: Warning, graph: routes(routeFact.compression),
		Title: "answers are compressed before they are kept"},
	{ID: "G061", Name: "useless-retries", Severity: Warning, graph: routes(routeFact.serverErrors),
		Title: "clients repeat requests whose failed answers are kept and replayed"},
	{ID: "G062", Name: "payment-fails-open", Severity: Error, graph: routes(routeFact.failOpen),
		Title: "payments run unprotected while the store does not answer"},
	{ID: "G063", Name: "store-of-one-process", Severity: Warning, graph: stores(storeFact.oneProcess),
		Title: "each of several processes has records of its own"},
}

// What package idempotency does where nothing is said.
const (
	defaultRetention    = 24 * time.Hour
	defaultLease        = 30 * time.Second
	defaultMaxExecution = 5 * time.Minute
)

// routeFact is what a file says of a route, under one rule.
type routeFact struct {
	*look
	service *Service
	name    string
	facts.Route
}

// routes makes a rule for routes one of a graph.
func routes(check func(routeFact)) func(*look) {
	return func(x *look) {
		for i := range x.Services {
			s := &x.Services[i]
			for _, name := range slices.Sorted(maps.Keys(s.Program.Routes)) {
				check(routeFact{x, s, name, s.Program.Routes[name]})
			}
		}
	}
}

func (r routeFact) path(key string) string { return "facts.routes." + r.name + "." + key }

// said reports whether a fact is known: one that could not be read makes the rule unknown,
// and so does one that is needed and not there.
func (r routeFact) said(key string, has bool) bool {
	return r.look.said(r.service, r.path(key), has)
}

func (x *look) said(s *Service, path string, has bool) bool {
	why := ""
	switch {
	case s.Unread != nil && s.Unread(path):
		why = "it could not be read"
	case !has:
		why = "the file does not say it"
	default:
		return true
	}
	x.run.report.Unknown = append(x.run.report.Unknown, Unknown{x.rule, s.Place("", "", "").File, "", path, why})
	return false
}

func (r routeFact) find(key, reason, proposal string) {
	r.findAt(r.rule.Severity, r.service, r.path(key), r.name+": "+reason, proposal)
}

// takesKeys reports whether the file says that requests have keys.
func (r routeFact) takesKeys() bool {
	said := r.Guarantee != "" || r.Store != "" || r.Retention > 0 || r.Lease > 0 || r.NoHeartbeat || r.MaxExecution > 0 || r.Scope != "" || r.Fail != ""
	return r.Key == facts.KeyUseRequired || r.Key == facts.KeyUseOptional || r.Key == "" && said
}

// writes reports whether requests of the route change something, by its name.
func (r routeFact) writes() bool {
	method, _, _ := strings.Cut(r.name, " ")
	return !slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}, method)
}

func orDefault(t, otherwise time.Duration) string {
	if t == 0 {
		return d(otherwise) + " (the default)"
	}
	return d(t)
}

// retention is rule G050.
func (r routeFact) retention() {
	if !r.takesKeys() || !r.said("retention", true) {
		return
	}
	longest, who := r.Clients.Horizon, "clients"
	known := longest > 0
	for _, i := range r.into[r.index[r.service.Name]] {
		e := &r.Edges[i]
		if e.Policy.Safe || e.Policy.Retry.Attempts < 2 && !e.Facts.Queue && e.Facts.Horizon == 0 {
			continue
		}
		horizon := max(e.Facts.Horizon, e.Policy.Timeout.Call, 0)
		if !r.reads(e, "timeout.call", "facts.horizon") {
			continue
		}
		if e.Facts.Horizon == 0 && (e.Facts.Queue || horizon == 0) {
			r.unknown(e, "facts.horizon", "the file does not say it")
			continue
		}
		if known = true; horizon > longest {
			longest, who = horizon, e.From
		}
	}
	if !known {
		r.said("clients.horizon", false)
		return
	}
	if kept := cmp.Or(r.Retention, defaultRetention); kept < longest {
		r.find("retention", fmt.Sprintf("retention %s < %s, for which %s may repeat a request: one that comes after that is done again",
			orDefault(r.Retention, defaultRetention), d(longest), who), "write "+d(longest+longest/9)+" or more, so that clients stop at nine tenths of it")
	}
}

// lease is rule G051.
func (r routeFact) lease() {
	if !r.takesKeys() || !r.said("p999", r.P999 > 0) {
		return
	}
	if lease := cmp.Or(r.Lease, defaultLease); r.NoHeartbeat && r.Guarantee != facts.GuaranteeTx && lease < r.P999 && r.said("lease", true) {
		r.find("lease", fmt.Sprintf("lease %s < %s, which one run in a thousand takes, and nothing extends it: another run may begin while the first one lives, or its outcome counts as unknown",
			orDefault(r.Lease, defaultLease), d(r.P999)), "extend the lease while the work runs, as package idempotency does, or write "+d(2*r.P999))
	}
	if most := cmp.Or(r.MaxExecution, defaultMaxExecution); most < r.P999 && r.said("max_execution", true) {
		r.find("max_execution", fmt.Sprintf("max_execution %s < %s, which one run in a thousand takes: these are cancelled, and their outcome is unknown",
			orDefault(r.MaxExecution, defaultMaxExecution), d(r.P999)), "write "+d(2*r.P999))
	}
}

// key is rule G052.
func (r routeFact) key() {
	if !r.writes() || r.Key == facts.KeyUseRequired || r.Key == "" && r.takesKeys() || !r.said("key", true) {
		return
	}
	how := map[facts.KeyUse]string{"": "the file says nothing of a key", facts.KeyUseNone: "it takes no key", facts.KeyUseOptional: "a key is optional"}[r.Key]
	if n := r.Clients.Attempts; n > 1 {
		r.find("key", fmt.Sprintf("clients make up to %d attempts, and %s: a request whose answer was lost is done %d times", n, how, n),
			"require a key (package idempotency), or switch the clients' retries off")
		return
	}
	edges := r.into[r.index[r.service.Name]]
	for _, i := range edges {
		e := &r.Edges[i]
		if r.Key != facts.KeyUseOptional && !e.Policy.Safe && e.Policy.Key != 0 && e.Policy.Retry.Attempts > 1 && r.reads(e, "key", "retry.attempts", "safe") {
			r.find("key", fmt.Sprintf("%s repeats requests, since they have a key (key: %s), and %s: a request whose answer was lost is done up to %d times",
				e.From, e.Policy.Key, how, e.Policy.Retry.Attempts), "require the key (package idempotency)")
			return
		}
	}
	if r.Clients.Attempts == 0 && len(edges) == 0 {
		r.said("clients.attempts", false)
	}
}

// guarantee is rule G053.
func (r routeFact) guarantee() {
	if r.takesKeys() && r.Guarantee == "" && r.said("guarantee", true) {
		r.find("guarantee", "it takes keys, and does not say what may happen to a run that was lost: the default, hold, leaves its outcome unknown",
			"write guarantee: tx where all effects are in one SQL transaction, reexecute where twice is harmless, else hold")
	}
}

// scope is rule G054.
func (r routeFact) scope() {
	if !r.takesKeys() || !r.said("scope", r.Scope != "") {
		return
	}
	if r.Scope == "global" || r.Scope == "*" {
		r.find("scope", "the scope of keys is "+r.Scope+": who guesses another's key gets that one's answer, and two who choose the same key get 422",
			"let the scope be the tenant or the principal of the request, after authentication")
	}
}

// streaming is rule G059.
func (r routeFact) streaming() {
	if r.takesKeys() && r.Streaming {
		r.find("streaming", "it takes keys and streams its answers: one without an end, or longer than MaxResponseBody, is not kept, and who repeats the request is told response-not-retained (409)",
			"answer with the id of a result that can be read again, and stream that from a GET")
	}
}

// compression is rule G060.
func (r routeFact) compression() {
	if r.takesKeys() && r.Compression == facts.SideInside {
		r.find("compression", "answers are compressed inside of what keeps them: a replay is compressed as the first client wished, whatever this one understands, and large answers of little text still fill the store",
			"compress outside: wrap the idempotency.Handler")
	}
}

// serverErrors is rule G061.
func (r routeFact) serverErrors() {
	hold := r.Guarantee == facts.GuaranteeHold || r.Guarantee == ""
	if r.takesKeys() && hold && r.Clients.ServerErrors && r.said("guarantee", true) {
		r.find("clients.server_errors", "clients repeat a request after a 5xx, and under hold a 5xx is kept: each retry gets the same answer again",
			"let clients stop at Idempotent-Replayed: true, call idempotency.NoEffect for failures before any effect, or use tx")
	}
}

// failOpen is rule G062.
func (r routeFact) failOpen() {
	if r.Fail != facts.FailOpen {
		return
	}
	for _, tag := range r.Tags {
		if strings.HasPrefix(strings.ToLower(tag), "payment") || strings.EqualFold(tag, "money") {
			r.find("fail", "tagged "+tag+", and while the store does not answer it runs unprotected: each retry in that time moves the money again", "write fail: closed, and set FailOpen to false")
			return
		}
	}
}
