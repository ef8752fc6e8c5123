// Package grpcconfig reads gRPC service configs and says what they mean as policies.
//
// A service config is JSON that tells gRPC clients how to retry, hedge and throttle the
// calls of some methods, and how long they may take (gRFC A6). All mistakes are found at
// once, each with its line and column, and so is what means something else here, as notes.
// Nothing here looks at a clock, draws a number or calls anything.
package grpcconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gabion-go/gabion/policy"
)

// Options say what policies are made for.
type Options struct {
	// Exact switches off what gabion adds to a service config: the breaker, the bulkhead,
	// pacing, timeouts of attempts, and a budget where the config has no throttling.
	Exact bool
}

// Config is a service config without mistakes. It is not changed once it is made.
type Config struct {
	Methods []Method // in the order of the file, without those of no name

	// Notes are what means something else here, in the order of their places.
	Notes []Finding

	// Rest is the part of the config that stays gRPC's, as a service config of its own:
	// load balancing, health checks, waiting for a connection, sizes of messages. It is empty if
	// nothing is left.
	Rest string

	byName   map[string]int
	throttle *throttling
}

// Method is a method config.
type Method struct {
	Dependency string   // a name for it, made of the first of Names
	Names      []string // "/service/method", "/service/" for all of a service, "" for all
	Policy     policy.Policy

	Line int            // where the config begins
	From map[string]int // the lines of what Policy says, by the path of its key
}

// Spoken names the methods for people, such as "/service/method, /other/*".
func (m Method) Spoken() string {
	const most = 8
	var names []string
	for _, path := range m.Names[:min(len(m.Names), most)] {
		names = append(names, spoken(path))
	}
	text := strings.Join(names, ", ")
	if more := len(m.Names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// methodConfig is a method config as it is written.
type methodConfig struct {
	at       *node
	names    []string
	nameless bool
	fields   map[string]*node
	timeout  *time.Duration
	retry    *resending
	hedge    *resending
}

// resending is a retryPolicy or a hedgingPolicy.
type resending struct {
	at           *node
	fields       map[string]*node
	attempts     int
	initial, max time.Duration
	multiplier   float64
	delay        time.Duration
	codes        []policy.GRPCCode
}

// throttling is the retryThrottling of a config.
type throttling struct {
	at                *node
	tokens, ratio     float64
	tokensAt, ratioAt *node
}

// Parse reads a service config; name is for messages. With findings there is no config.
func Parse(name string, data []byte, o Options) (*Config, []Finding) {
	doc := &document{name: name, text: string(data)}
	if wrong, ok := doc.unreadable(); ok {
		doc.text = ""
		doc.fail(0, true, wrong, "")
		return nil, doc.found
	}
	doc.text = strings.ReplaceAll(doc.text, "\r\n", " \n") // encoding/json takes both for blanks
	root, syntax := parseJSON(doc)
	if syntax != nil {
		doc.fail(syntax.at, syntax.ours, syntax.reason, syntax.proposal)
		return nil, doc.found
	}
	r := reader{document: doc, config: &Config{byName: map[string]int{}}, paths: map[string]int{}}
	r.root(root, o)
	if len(doc.found) > 0 {
		return nil, sorted(doc.found)
	}
	r.config.Notes = sorted(doc.notes)
	return r.config, nil
}

func (d *document) unreadable() (reason string, ok bool) {
	switch {
	case len(d.text) > maxSize:
		return fmt.Sprintf("the file has %d bytes, and a service config at most 1 MiB", len(d.text)), true
	case !utf8.ValidString(d.text):
		return "not UTF-8", true
	}
	return "", false
}

func sorted(list []Finding) []Finding {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return slices.Compact(list)
}

// Find returns the index of the method config of a method, such as "/service/method": its
// own, else its service's, else that of all methods.
func (c *Config) Find(method string) (i int, ok bool) {
	if i, ok = c.byName[method]; ok {
		return i, true
	}
	if i, ok = c.byName[method[:strings.LastIndexByte(method, '/')+1]]; ok {
		return i, true
	}
	i, ok = c.byName[""]
	return i, ok
}

func (r *reader) root(n *node, o Options) {
	if n.kind == isNull {
		r.stricter(n, "null is no service config", "write {} for a config that says nothing")
		return
	}
	f, ok := r.fields(n, "service config", "methodConfig", "retryThrottling", "loadBalancingConfig", "loadBalancingPolicy", "healthCheckConfig")
	if !ok {
		return
	}
	r.balancing(f)
	if at := f["retryThrottling"]; at != nil {
		r.throttling(at, f["methodConfig"] == nil)
	}
	var read []methodConfig
	if at := f["methodConfig"]; at != nil {
		for _, item := range r.list(at, "methodConfig") {
			if m, ok := r.methodConfig(item); ok {
				read = append(read, m)
			}
		}
	}
	if len(r.found) == 0 {
		r.resolve(n, read, f, o)
	}
}

// balancing judges what stays gRPC's.
func (r *reader) balancing(f map[string]*node) {
	r.text(f["loadBalancingPolicy"], "loadBalancingPolicy")
	if at := f["healthCheckConfig"]; at != nil {
		if h, ok := r.fields(at, "healthCheckConfig", "serviceName"); ok {
			r.text(h["serviceName"], "healthCheckConfig.serviceName")
		}
	}
	at := f["loadBalancingConfig"]
	if at == nil {
		return
	}
	items := r.list(at, "loadBalancingConfig")
	if at.kind == isList && len(items) == 0 {
		r.wrong(at, "loadBalancingConfig has no policy", `write one such as [{"round_robin": {}}], or leave it out`)
	}
	for i, item := range items {
		keys := map[string]bool{}
		for _, m := range item.members {
			keys[m.key.text] = true
		}
		switch {
		case item.kind != isObject && item.kind != isNull:
			r.wrong(item, "loadBalancingConfig wants objects, not "+named(item), `write {"round_robin": {}}`)
		case len(item.members) != 1: // grpc-go does not look behind the first policy that it knows
			r.fail(item.at, i > 0 || len(keys) == 1, "an entry of loadBalancingConfig has one policy", `write {"round_robin": {}}`)
		}
	}
}

// throttling reads what bounds retries and hedges. grpc-go judges it only beside methods.
func (r *reader) throttling(n *node, ours bool) {
	f, ok := r.fields(n, "retryThrottling", "maxTokens", "tokenRatio")
	if !ok {
		return
	}
	t := &throttling{at: n, tokensAt: f["maxTokens"], ratioAt: f["tokenRatio"]}
	r.bound(n, f, "maxTokens", "100", 1000, ours, &t.tokens)
	r.bound(n, f, "tokenRatio", "0.1", 0, ours, &t.ratio)
	r.config.throttle = t
}

// bound reads a number of the throttling, which has to be above 0 and at most most, if there
// is a most.
func (r *reader) bound(n *node, f map[string]*node, key, such string, most float64, ours bool, to *float64) {
	at := f[key]
	if at == nil {
		r.fail(n.at, ours, "retryThrottling: "+key+" is missing", `write one such as "`+key+`": `+such)
		return
	}
	v, ok := r.float(at, "retryThrottling."+key, such)
	switch {
	case !ok:
	case v <= 0:
		r.fail(at.at, ours, "retryThrottling."+key+": "+clip(at.text)+" is not above zero", "write one such as "+such)
	case most > 0 && v > most:
		r.fail(at.at, ours, fmt.Sprintf("retryThrottling.%s: %s is more than %v", key, clip(at.text), most), fmt.Sprintf("write at most %v", most))
	}
	*to = v
}
