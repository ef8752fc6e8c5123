package library

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Where nginx's directives are explained.
const (
	nginxProxy    = "https://nginx.org/en/docs/http/ngx_http_proxy_module.html"
	nginxUpstream = "https://nginx.org/en/docs/http/ngx_http_upstream_module.html"
)

// nginxProxyRules are the directives of a location, inherited from the blocks around it.
var nginxProxyRules = foreign.Sourced(nginxProxy, []foreign.Rule{
	{Key: "proxy_pass", Fate: foreign.Kept},
	{Key: "proxy_next_upstream", Shape: nextCases, Fate: foreign.Kept, To: "http"},
	{Key: "proxy_next_upstream_tries", Shape: foreign.Loosely(foreign.Whole(0, math.MaxInt32)), Fate: foreign.Kept, To: "retry.attempts"},
	{Key: "proxy_next_upstream_timeout", Shape: nginxSpan, Fate: foreign.Nearly, To: "timeout.call", Text: "after {} no other server is tried there, and the attempt that is out goes on; here the call ends"},
	{Key: "proxy_connect_timeout", Shape: nginxSpan, Fate: foreign.Lost, Text: "{} for a connection: set it in the dialer; timeout.attempt bounds connecting and answering together"},
	{Key: "proxy_read_timeout", Shape: nginxSpan, Fate: foreign.Nearly, To: "timeout.attempt", Text: "{} between two reads there; here so long until the headers of an answer, and so long without a byte of its body"},
	{Key: "proxy_send_timeout", Shape: nginxSpan, Fate: foreign.Lost, Text: "{} between two writes there; here timeout.attempt bounds sending and answering together"},
})

// nginxServerRules are the parameters of a server of an upstream, and other lines beside it.
var nginxServerRules = foreign.Sourced(nginxUpstream, []foreign.Rule{
	{Key: "max_fails", Shape: foreign.Loosely(foreign.Whole(0, math.MaxInt32)), Fate: foreign.Lost, Text: "after {} failures one server is left out there, and when all are, all are tried; here endpoints.list has a breaker for each"},
	{Key: "fail_timeout", Shape: nginxSpan, Fate: foreign.Lost, Text: "for {} one server is left out there; here endpoints.list has a breaker for each, which opens for breaker.open"},
	{Key: "max_conns", Shape: foreign.Loosely(foreign.Whole(0, math.MaxInt32)), Fate: foreign.Nearly, To: "bulkhead.limit", Text: "{} at once to this server there, by each worker where there is no zone; here the servers' numbers together are the limit of the service"},
	{Key: "weight", Fate: foreign.Elsewhere, Text: "is load balancing"},
	{Key: "backup", Fate: foreign.Lost, Text: "is asked when the others are left out; here endpoints with mode: ordered do that"},
	{Key: "down", Fate: foreign.Elsewhere, Text: "is load balancing"},
	{Key: "resolve", Fate: foreign.Elsewhere, Text: "is load balancing"},
	{Key: "slow_start", Fate: foreign.Elsewhere, Text: "is load balancing"},
	{Key: "keepalive", Fate: foreign.Elsewhere, Text: "is about connections: http.Transport keeps them"},
	{Key: "keepalive_timeout", Fate: foreign.Elsewhere, Text: "is about connections: http.Transport keeps them"},
	{Key: "keepalive_requests", Fate: foreign.Elsewhere, Text: "is about connections: http.Transport keeps them"},
	{Key: "queue", Fate: foreign.Lost, Text: "requests wait for a server there; here the bulkhead's queue is for calls above its limit"},
})

// nginxPasses are the other modules that pass requests on. Each has the same directives under its own name.
var nginxPasses = []string{"proxy_", "grpc_", "fastcgi_", "uwsgi_", "scgi_"}

func passRules() (all []foreign.Rule) {
	for _, prefix := range nginxPasses[1:] {
		for _, r := range nginxProxyRules {
			r.Key = prefix + strings.TrimPrefix(r.Key, "proxy_")
			r.Source = strings.Replace(r.Source, "proxy_", prefix, 1)
			all = append(all, r)
		}
	}
	return all
}

var (
	nginxTable   = foreign.NewTable("nginx refuses it", nil, nginxProxyRules)
	nginxOthers  = foreign.NewTable("nginx refuses it", nil, passRules())
	nginxServers = foreign.NewTable("nginx refuses it", nil, nginxServerRules)
)

var nginx = foreign.Format{
	Name: "nginx", Title: "nginx's proxy_next_upstream, timeouts and upstreams", Source: nginxProxy, Tables: []*foreign.Table{nginxTable, nginxServers}, Plain: true,
	Like: func(text []byte, _ []*yamlstrict.Tree) bool { return nginxLike.Match(text) },
	Read: readNginx,
}

var nginxLike = regexp.MustCompile(`(?m)^\s*(upstream\s+\S+\s*\{|(proxy|grpc|fastcgi|uwsgi|scgi)_(pass|next_upstream\w*|read_timeout)\s[^;{}=:]*[^;{}]*;)|\{\s*(proxy|grpc|fastcgi|uwsgi|scgi)_pass\s[^;]*;`)

// cases are what a request is passed to the next server for, and the statuses among them.
var cases = map[string]int{
	"error": 0, "timeout": 0, "invalid_header": 0, "non_idempotent": 0, "denied": 0, "off": 0,
	"http_500": 500, "http_502": 502, "http_503": 503, "http_504": 504, "http_403": 403, "http_404": 404, "http_429": 429,
}

func nextCases(v *foreign.Value) (reason, proposal string) {
	for word := range strings.FieldsSeq(v.Tree.Text) {
		if _, ok := cases[word]; !ok {
			return fmt.Sprintf("has no case %.40q", word), "write error, timeout, invalid_header, non_idempotent, off, or http_ with 500, 502, 503, 504, 403, 404 or 429"
		}
		v.Words = append(v.Words, word)
	}
	return "", ""
}

// nginxForm is a time: parts with units, the last of them seconds if it has none.
var nginxForm = regexp.MustCompile(`^(?:(\d{1,6})d)? ?(?:(\d{1,7})h)? ?(?:(\d{1,8})m)? ?(?:(\d{1,9})(?:s|$))? ?(?:(\d{1,9})ms)?$`)

func nginxSpan(v *foreign.Value) (reason, proposal string) {
	m := nginxForm.FindStringSubmatch(v.Tree.Text)
	if m == nil || v.Tree.Text == "" {
		return fmt.Sprintf("%.40q is no time", v.Tree.Text), "write one such as 500ms, 10s or 1m30s"
	}
	for i, unit := range []time.Duration{day, time.Hour, time.Minute, time.Second, time.Millisecond} {
		n, _ := strconv.Atoi("0" + m[i+1])
		v.Span += time.Duration(n) * unit
	}
	v.Text = v.Tree.Text
	return "", ""
}

// nginxFile is a file while it is read.
type nginxFile struct {
	w         *foreign.Walker
	upstreams map[string][]*foreign.Value // their servers, by name
}

func readNginx(f *foreign.File) *foreign.Import {
	w := foreign.NewWalker(f, "nginx")
	all := nginxParts(w, f)
	n := &nginxFile{w: w, upstreams: map[string][]*foreign.Value{}}
	n.servers(all)
	n.blocks(all, nil, "")
	return w.Done()
}

// servers reads the upstreams: they may stand behind those who name them.
func (n *nginxFile) servers(all []directive) {
	for _, d := range all {
		if d.name() == "stream" && d.has {
			n.w.Remark(&foreign.Value{Path: "stream", Key: d.words[0], Tree: d.words[0]}, foreign.Unknown, "a stream passes bytes on, and tells no answers apart: it is not read")
			continue
		}
		if d.name() != "upstream" || len(d.words) < 2 {
			n.servers(d.block)
			continue
		}
		name := d.words[1].Text
		for _, line := range d.block {
			if line.name() != "server" {
				n.read(nginxServers, line.words[0], line.words[1:], "upstream "+name)
				continue
			}
			server := &yamlstrict.Tree{Kind: yamlstrict.Map, Line: line.words[0].Line, Col: line.words[0].Col}
			for _, word := range line.words[min(2, len(line.words)):] {
				server.Pairs = append(server.Pairs, parameter(word))
			}
			if v := n.w.Read(server, nginxServers, "upstream "+name+".server"); v != nil {
				n.upstreams[name] = append(n.upstreams[name], v)
			}
		}
	}
}

// parameter is a word such as max_fails=3.
func parameter(word *yamlstrict.Tree) yamlstrict.Pair {
	name, text, _ := strings.Cut(word.Text, "=")
	key, value := *word, *word
	key.Text, value.Text = name, text
	if text == "" {
		value.Text = "on"
	}
	return yamlstrict.Pair{Key: &key, Value: &value}
}

// read reads a line by a table.
func (n *nginxFile) read(table *foreign.Table, key *yamlstrict.Tree, words []*yamlstrict.Tree, path string) *foreign.Value {
	known := slices.ContainsFunc(table.Rules, func(r foreign.Rule) bool { return r.Key == key.Text })
	if !known {
		n.w.Remark(&foreign.Value{Path: path + "." + key.Text, Key: key, Tree: key}, foreign.Elsewhere, "is not about calls that fail")
		return nil
	}
	value := yamlstrict.Tree{Kind: yamlstrict.Text, Line: key.Line, Col: key.Col}
	var texts []string
	for _, w := range words {
		texts = append(texts, w.Text)
	}
	value.Text = strings.Join(texts, " ")
	return n.w.Read(&yamlstrict.Tree{Kind: yamlstrict.Map, Line: key.Line, Col: key.Col, Pairs: []yamlstrict.Pair{{Key: key, Value: &value}}}, table, path).Get(key.Text)
}

// blocks reads the directives of a block, which inherits those around it.
func (n *nginxFile) blocks(all []directive, around map[string]*foreign.Value, path string) {
	here := map[string]*foreign.Value{}
	for key, v := range around {
		if key != "pass" {
			here[key] = v
		}
	}
	for _, d := range all {
		switch {
		case d.name() == "include" && len(d.words) > 1:
			at := d.words[0]
			n.w.Remark(&foreign.Value{Path: strings.TrimPrefix(path+".include", "."), Key: at, Tree: d.words[1]}, foreign.Unknown, "{} is not read: name it as a file as well, or give what nginx -T prints")
		case !d.has:
			prefix, _, _ := strings.Cut(d.name(), "_")
			if !slices.Contains(nginxPasses, prefix+"_") {
				continue
			}
			table := nginxTable
			if prefix != "proxy" {
				table = nginxOthers
			}
			if v := n.read(table, d.words[0], d.words[1:], strings.TrimPrefix(path, ".")); v != nil {
				if here[d.name()] = v; d.name() == prefix+"_pass" {
					here["pass"] = v
				}
			}
		}
	}
	if pass := here["pass"]; pass != nil {
		n.location(module(here, pass), pass, strings.TrimPrefix(path, "."))
	}
	for _, d := range all {
		if d.has && d.name() != "upstream" && d.name() != "stream" {
			at := path
			if d.name() == "location" || d.name() == "server" {
				at += "." + d.name() + label(d)
			}
			n.blocks(d.block, here, at)
		}
	}
}

// module is what counts for a location: the directives of the module that passes its requests on, without its name.
func module(here map[string]*foreign.Value, pass *foreign.Value) map[string]*foreign.Value {
	prefix := strings.TrimSuffix(pass.Name, "pass")
	of := map[string]*foreign.Value{}
	for key, v := range here {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			of[rest] = v
		}
	}
	return of
}

// label names a block: by its path, or by the name of a server.
func label(d directive) string {
	if d.name() == "location" && len(d.words) > 1 {
		return " " + d.words[len(d.words)-1].Text
	}
	for _, line := range d.block {
		if line.name() == "server_name" && len(line.words) > 1 {
			return " " + line.words[1].Text
		}
	}
	return ""
}

// location makes a route of a location that passes requests on.
func (n *nginxFile) location(here map[string]*foreign.Value, pass *foreign.Value, path string) {
	to := pass.Tree.Text
	_, host, ok := strings.Cut(to, "://")
	if !ok { // as fastcgi_pass has it
		host = to
	}
	host, _, _ = strings.Cut(host, "/")
	d := begin(n.w, host, strings.TrimSpace(path)+" to "+to, pass.Line(0))
	servers := slices.DeleteFunc(slices.Clone(n.upstreams[host]), func(s *foreign.Value) bool { return s.Get("down") != nil })
	read, call := here["read_timeout"], here["next_upstream_timeout"]
	d.plays(func(p *policy.Policy) { p.Timeout.Attempt, p.Timeout.Idle = time.Minute, time.Minute })
	if read != nil && read.Span > 0 {
		d.says(read, func(p *policy.Policy) {
			p.Timeout.Attempt, p.Timeout.Idle = orOff(read.Span), max(orOff(read.Span), time.Millisecond)
		}, "timeout.attempt", "timeout.idle")
	}
	if read == nil {
		n.w.Remark(pass, foreign.Nearly, "nginx waits 60s for an answer if nothing is said, and gabion 4s for an attempt")
	}
	if call != nil && call.Span == 0 {
		n.w.Remark(call, foreign.Nearly, "{} is no bound there; here timeout.call keeps its default")
	}
	if call != nil && call.Span > 0 {
		whole := call.Span + here["read_timeout"].SpanOr(time.Minute)
		d.plays(func(p *policy.Policy) { p.Timeout.Call = foreign.Bounded(whole) })
		d.says(call, func(p *policy.Policy) { p.Timeout.Call = foreign.Bounded(whole) }, "timeout.call")
		n.w.Remark(call, foreign.Nearly, "after {} no other server is tried there, and the attempt that is out goes on; here the call may take so long and an attempt more, "+policy.FormatDuration(whole))
	}
	n.next(d, here, max(len(servers), 1))
	n.limit(d, servers)
	d.done()
}

// next reads how often a request is passed on, and for what.
func (n *nginxFile) next(d *draft, here map[string]*foreign.Value, servers int) {
	which, tries := here["next_upstream"], here["next_upstream_tries"]
	words := []string{"error", "timeout"}
	if which != nil {
		words = which.Words
	}
	attempts := min(servers, terms.MaxSends) // each server is asked once
	if most := int(tries.NumberOr(0)); most > 0 {
		attempts = min(attempts, most)
	}
	if slices.Contains(words, "off") {
		attempts = 1
	}
	set := func(p *policy.Policy) { p.Retry.Attempts, p.Retry.Backoff = attempts, backoff.Const(0) }
	if attempts == 1 {
		set = func(p *policy.Policy) { p.Retry.Attempts = 1 }
	}
	if tries != nil && tries.Number > float64(attempts) {
		n.w.Remark(tries, foreign.Nearly, fmt.Sprintf("{} tries are %d here: each server of the upstream is asked once", attempts))
	}
	if at := cmp.Or(tries, which); at != nil {
		d.says(at, set, "retry.attempts", "retry.backoff")
	} else {
		d.follows(set)
	}
	if attempts == 1 {
		return
	}
	d.plays(func(p *policy.Policy) { p.Safe = slices.Contains(words, "non_idempotent") })
	var more, never []int
	for _, status := range []int{403, 404, 429, 500, 502, 503, 504} {
		listed := slices.Contains(words, fmt.Sprintf("http_%d", status))
		switch usual := status == 429 || status > 500; {
		case listed && !usual:
			more = append(more, status)
		case !listed && usual:
			never = append(never, status)
		}
	}
	d.route.Repeats = nginxRepeats(words)
	statuses := func(p *policy.Policy) { p.HTTP.Transient, p.HTTP.Permanent = more, never }
	if which != nil {
		d.says(which, statuses, "http.transient", "http.permanent")
	} else {
		d.follows(statuses)
	}
}

// nginxRepeats is what a list of proxy_next_upstream sends again.
func nginxRepeats(words []string) []string {
	made := []string{}
	for _, word := range words {
		status, listed := strings.CutPrefix(word, "http_")
		switch {
		case listed:
			made = append(made, status)
		case word == "error":
			made = append(made, "refused", "reset")
		case word == "timeout":
			made = append(made, word)
		}
	}
	return made
}

// limit adds up what the servers of an upstream may have at once.
func (n *nginxFile) limit(d *draft, servers []*foreign.Value) {
	sum := 0
	var at *foreign.Value
	for _, s := range servers {
		most := s.Get("max_conns")
		if most.NumberOr(0) <= 0 {
			return // one without a bound
		}
		sum, at = sum+int(most.Number), most
	}
	d.says(at, func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: sum, Queue: policy.Off} }, "bulkhead.limit", "bulkhead.queue")
	if at != nil {
		d.plays(func(p *policy.Policy) { p.Bulkhead.QueueTimeout = policy.Off })
	}
}
