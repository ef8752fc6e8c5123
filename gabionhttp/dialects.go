package gabionhttp

import (
	"net/http"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A dialect is one of the ways in which servers say what is left of their quotas. Of two that say
// something of one unit, the one that stands first in the table counts.
type dialect struct {
	name   string
	source string // where it is documented
	quotas []quotaHeaders
	read   func(h http.Header, tell func(policy.Remaining)) // in place of quotas
}

// quotaHeaders are the headers of one quota, as net/http spells their names.
type quotaHeaders struct {
	unit               string
	left, limit, reset string // an empty name: the server does not say it
	resource           string // names the quota that is meant: "core" is the one of most requests, and others are units by themselves
	after              string // says what reset says, and counts more where it is there
	full               bool   // reset is when the quota is whole again, as of a bucket that refills all the time
	window             time.Duration
}

// dialects is the table. docs/llm.md shows it, and a test compares.
var dialects = []dialect{
	{
		name: "RateLimit, RateLimit-Policy", source: "draft-ietf-httpapi-ratelimit-headers-08 to -11; limit=, remaining=, reset=: -07", read: readRateLimit,
	},
	{
		name: "RateLimit-Limit, -Remaining, -Reset", source: "draft-ietf-httpapi-ratelimit-headers-00 to -06",
		quotas: []quotaHeaders{{unit: policy.Requests, left: "Ratelimit-Remaining", limit: "Ratelimit-Limit", reset: "Ratelimit-Reset"}},
	},
	{
		// Its -priority- headers are not read: what is left of a priority is no bound, as requests beyond it are served as others are.
		name: "anthropic-ratelimit-*", source: "platform.claude.com/docs/en/api/rate-limits, docs.aws.amazon.com/claude-platform/latest/userguide/rate-limits.html",
		quotas: []quotaHeaders{
			{unit: policy.Requests, left: "Anthropic-Ratelimit-Requests-Remaining", limit: "Anthropic-Ratelimit-Requests-Limit", reset: "Anthropic-Ratelimit-Requests-Reset", full: true, window: time.Minute},
			{unit: "input", left: "Anthropic-Ratelimit-Input-Tokens-Remaining", limit: "Anthropic-Ratelimit-Input-Tokens-Limit", reset: "Anthropic-Ratelimit-Input-Tokens-Reset", full: true, window: time.Minute},
			{unit: "output", left: "Anthropic-Ratelimit-Output-Tokens-Remaining", limit: "Anthropic-Ratelimit-Output-Tokens-Limit", reset: "Anthropic-Ratelimit-Output-Tokens-Reset", full: true, window: time.Minute},
			{unit: "tokens", left: "Anthropic-Ratelimit-Tokens-Remaining", limit: "Anthropic-Ratelimit-Tokens-Limit", reset: "Anthropic-Ratelimit-Tokens-Reset", full: true, window: time.Minute},
		},
	},
	{
		// Azure OpenAI writes plain seconds, and Groq fractions: both are read. Groq's requests are those of a day. The tokens of a
		// project are there where it has a limit of its own.
		name: "x-ratelimit-*-requests, -tokens, -project-tokens", source: "developers.openai.com/api/docs/guides/rate-limits, learn.microsoft.com/azure/foundry/openai/how-to/quota, console.groq.com/docs/rate-limits",
		quotas: []quotaHeaders{
			{unit: policy.Requests, left: "X-Ratelimit-Remaining-Requests", limit: "X-Ratelimit-Limit-Requests", reset: "X-Ratelimit-Reset-Requests", full: true},
			{unit: "tokens", left: "X-Ratelimit-Remaining-Tokens", limit: "X-Ratelimit-Limit-Tokens", reset: "X-Ratelimit-Reset-Tokens", full: true},
			{unit: "tokens", left: "X-Ratelimit-Remaining-Project-Tokens", limit: "X-Ratelimit-Limit-Project-Tokens", reset: "X-Ratelimit-Reset-Project-Tokens", full: true},
		},
	},
	{
		// Seconds since 1970, as GitHub has it, or from now. X-RateLimit-Reset-After is Discord's, and -Resource GitHub's: core, search, graphql and others.
		name: "X-RateLimit-Limit, -Remaining, -Reset", source: "docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api, docs.discord.com/developers/topics/rate-limits",
		quotas: []quotaHeaders{{unit: policy.Requests, left: "X-Ratelimit-Remaining", limit: "X-Ratelimit-Limit", reset: "X-Ratelimit-Reset", after: "X-Ratelimit-Reset-After", resource: "X-Ratelimit-Resource"}},
	},
	{
		name: "X-Rate-Limit-Limit, -Remaining, -Reset", source: "developer.okta.com/docs/reference/rl-best-practices, docs.x.com/fundamentals/rate-limits",
		quotas: []quotaHeaders{{unit: policy.Requests, left: "X-Rate-Limit-Remaining", limit: "X-Rate-Limit-Limit", reset: "X-Rate-Limit-Reset"}},
	},
	{
		name: "x-ms-ratelimit-remaining-*", source: "learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling",
		quotas: []quotaHeaders{
			{unit: "reads", left: "X-Ms-Ratelimit-Remaining-Subscription-Reads"},
			{unit: "writes", left: "X-Ms-Ratelimit-Remaining-Subscription-Writes"},
			{unit: "deletes", left: "X-Ms-Ratelimit-Remaining-Subscription-Deletes"},
		},
	},
	{
		name: "X-Shopify-Shop-Api-Call-Limit", source: "shopify.dev/docs/api/admin-rest/usage/rate-limits", read: readShopify,
	},
}

// readShopify reads used/size of a bucket that empties in twenty seconds, on every plan: 2 a second
// of 40, 4 of 80, 20 of 400.
func readShopify(h http.Header, tell func(policy.Remaining)) {
	const whole = 20 * time.Second
	line, found := firstLine(h, headerShopify)
	if !found {
		return
	}
	before, after, _ := cut(line, "/")
	used, ok := quantity(before)
	size, sized := quantity(after)
	if !ok || !sized || used > size || size == 0 {
		return
	}
	tell(policy.Remaining{
		Unit: policy.Requests, Left: size - used, Limit: size, Full: true,
		Reset: time.Duration(used / size * float64(whole)), Window: whole,
	})
}

// ietf is one member of RateLimit or RateLimit-Policy.
type ietf struct {
	name       string
	unit       string
	r, t, q, w float64 // below zero: not there
}

// readRateLimit reads the fields of the IETF's draft. What is malformed is ignored as a whole.
func readRateLimit(h http.Header, tell func(policy.Remaining)) {
	var limits, policies [maxMembers]ietf
	n, ok := readMembers(h["Ratelimit"], &limits)
	if !ok {
		readSeventh(h["Ratelimit"], tell)
		return
	}
	m, _ := readMembers(h["Ratelimit-Policy"], &policies)
	for _, l := range limits[:n] {
		if l.r < 0 {
			return // r is required
		}
	}
	for _, l := range limits[:n] {
		q := policy.Remaining{Unit: policy.Requests, Left: l.r, Reset: seconds(l.t)}
		for _, p := range policies[:m] {
			if p.name != l.name {
				continue
			}
			if q.Limit, q.Window = max(p.q, 0), seconds(p.w); p.unit != "" {
				q.Unit = p.unit
			}
			break
		}
		if q.Unit != "concurrent-requests" { // that is what a bulkhead is for
			tell(q)
		}
	}
}

// readMembers reads a list of strings with parameters.
func readMembers(lines []string, into *[maxMembers]ietf) (n int, ok bool) {
	s, ok := scan(lines)
	if !ok {
		return 0, false
	}
	ok = s.members(func() {
		name := s.bare()
		if name.kind != 's' || n == maxMembers {
			s.bad = true
			return
		}
		m := ietf{name: name.text, r: -1, t: -1, q: -1, w: -1}
		s.params(func(key string, value bare) {
			if at := m.number(key); at != nil {
				if value.kind != 'i' || value.num < 0 {
					s.bad = true
				}
				*at = value.num
			}
			if key == "qu" {
				if m.unit = value.text; value.kind != 's' {
					s.bad = true
				}
			}
		})
		into[n] = m
		n++
	})
	if !ok {
		return 0, false
	}
	return n, true
}

func (m *ietf) number(key string) *float64 {
	switch key {
	case "r":
		return &m.r
	case "t":
		return &m.t
	case "q":
		return &m.q
	case "w":
		return &m.w
	}
	return nil
}

// readSeventh reads the dictionary that the seventh draft had in place of the list:
// limit=100, remaining=50, reset=30.
func readSeventh(lines []string, tell func(policy.Remaining)) {
	s, ok := scan(lines)
	if !ok {
		return
	}
	limit, left, reset := -1.0, -1.0, -1.0
	ok = s.members(func() {
		key := s.key()
		s.expect('=')
		value := s.bare()
		s.params(func(string, bare) {})
		at := map[string]*float64{"limit": &limit, "remaining": &left, "reset": &reset}[key]
		if at == nil {
			return
		}
		if value.kind != 'i' || value.num < 0 {
			s.bad = true
		}
		*at = value.num
	})
	if !ok || left < 0 {
		return
	}
	tell(policy.Remaining{Unit: policy.Requests, Left: left, Limit: max(limit, 0), Reset: seconds(reset)})
}
