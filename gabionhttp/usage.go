package gabionhttp

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// usage is what an answer of a model provider says of its own cost, in tokens.
type usage struct {
	input, cached, output, total float64
	known                        bool
}

const (
	mostUsage  = 4 << 10 // bytes of one usage object: those of today have some hundred
	mostTokens = 1e9     // of one answer; more is a mistake
	usageKey   = "usage"
	usageDepth = 2 // of braces around the key: deeper ones are the model's words, such as the input of a tool
)

// usageReader finds the usage in an answer while the caller reads it: in a JSON object, or in the events of a
// stream, where the last word on each number counts. It keeps no more than the object that it is reading, and
// changes nothing. A blank line ends an event, and with it what was not closed.
type usageReader struct {
	packed bool // the bytes say nothing

	mu      sync.Mutex // guards all below: a body may be closed while it is read
	found   usage
	depth   int  // of braces and brackets
	quoted  bool // in a string
	escaped bool
	matched int    // letters of usageKey that the string has begun with; -1: it is another one
	valued  bool   // the key was read, and its value is to come
	blank   bool   // the line has nothing yet
	from    int    // depth in object
	object  []byte // the value of the key, as far as it was read; empty outside of one
}

// see reads what came of the answer.
func (u *usageReader) see(p []byte) {
	if u.packed {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range p {
		if len(u.object) > 0 {
			u.object = append(u.object, c)
		}
		if u.quoted && c != '\n' {
			u.inString(c)
		} else {
			u.outside(c)
		}
		if len(u.object) == mostUsage {
			u.object = u.object[:0]
		}
	}
}

// inString sees a byte of a string.
func (u *usageReader) inString(c byte) {
	switch {
	case u.escaped:
		u.escaped = false
	case c == '"':
		u.quoted = false
		u.valued = u.matched == len(usageKey) && u.depth <= usageDepth && len(u.object) == 0
	case c == '\\':
		u.escaped, u.matched = true, -1
	case u.matched >= 0 && u.matched < len(usageKey) && c == usageKey[u.matched]:
		u.matched++
	default:
		u.matched = -1
	}
}

// outside sees a byte that is in no string. None has a line break in it.
func (u *usageReader) outside(c byte) {
	blank := u.blank && (c == '\n' || c == '\r')
	u.blank = c == '\n' || blank
	switch c {
	case '"':
		u.quoted, u.escaped, u.matched = true, false, 0
	case '\n':
		if u.quoted, u.escaped = false, false; blank {
			u.depth, u.object = 0, u.object[:0]
		}
	case ' ', '\t', '\r', ':':
	case '{', '[':
		if u.depth++; u.valued && c == '{' {
			u.from, u.object = u.depth, append(u.object[:0], c)
		}
		u.valued = false
	case '}', ']':
		u.depth, u.valued = max(u.depth-1, 0), false
		if len(u.object) > 0 && u.depth < u.from {
			u.found.add(u.object)
			u.object = u.object[:0]
		}
	default:
		u.valued = false
	}
}

// total is what was found so far.
func (u *usageReader) total() usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.found
}

// add reads a usage object of OpenAI's, Anthropic's or their like. Numbers that can't be meant, and
// those that it does not say, leave what was known.
func (u *usage) add(object []byte) {
	var said struct {
		Prompt     *float64 `json:"prompt_tokens"`
		Completion *float64 `json:"completion_tokens"`
		Total      *float64 `json:"total_tokens"`
		Input      *float64 `json:"input_tokens"`
		Output     *float64 `json:"output_tokens"`
		Written    *float64 `json:"cache_creation_input_tokens"` // beside input_tokens
		Read       *float64 `json:"cache_read_input_tokens"`     // beside input_tokens
		PromptOf   struct {
			Cached *float64 `json:"cached_tokens"` // of prompt_tokens
		} `json:"prompt_tokens_details"`
		InputOf struct {
			Cached *float64 `json:"cached_tokens"` // of input_tokens
		} `json:"input_tokens_details"`
	}
	if json.Unmarshal(object, &said) != nil {
		return
	}
	for _, in := range [...]*float64{said.Prompt, said.Input} {
		if tokens(in) {
			u.input, u.known = *in, true
			if tokens(said.Written) { // which would be added twice to an input that another object has said
				u.input += *said.Written
			}
		}
	}
	if tokens(said.Read) {
		u.cached = *said.Read
	}
	for _, of := range [...][2]*float64{{said.Prompt, said.PromptOf.Cached}, {said.Input, said.InputOf.Cached}} {
		if in, cached := of[0], of[1]; tokens(in) && tokens(cached) && *cached <= u.input {
			u.cached, u.input = *cached, u.input-*cached
		}
	}
	for _, out := range [...]*float64{said.Completion, said.Output} {
		if tokens(out) {
			u.output, u.known = *out, true
		}
	}
	if u.total = u.input + u.cached + u.output; tokens(said.Total) {
		u.total, u.known = *said.Total, true
	}
}

func tokens(n *float64) bool { return n != nil && *n >= 0 && *n <= mostTokens }

// meter is what a policy wants to know of costs. It never changes.
type meter struct {
	prices []policy.Price
	quotas []policy.Quota
}

func meterOf(p *policy.Policy) meter {
	m := meter{prices: p.Prices, quotas: p.RateLimit.Quotas}
	if p.RateLimit.Off {
		m.quotas = nil
	}
	return m
}

// reads reports whether answers are searched for what they used.
func (m *meter) reads() bool {
	return len(m.prices) > 0 || slices.ContainsFunc(m.quotas, func(q policy.Quota) bool { return q.Unit != policy.Requests })
}

// spent counts an answer, and what it says that it used, and corrects what was reserved for the attempt that has that
// context. It is called once.
func (c *exchange) spent(ctx context.Context, u usage) {
	used := make([]policy.Spend, 1, 5)
	used[0] = policy.Spend{Unit: policy.Requests, Amount: 1, Answers: 1}
	for _, s := range [...]policy.Spend{{Unit: "input", Amount: u.input}, {Unit: "cached", Amount: u.cached}, {Unit: "output", Amount: u.output}, {Unit: "tokens", Amount: u.total}} {
		if u.known && (s.Amount > 0 || s.Unit != "cached") {
			s.Answers = 1
			used = append(used, s)
		}
	}
	if len(c.meter.prices) > 0 {
		used = adapter.Of(c.t.Dependency).Spent(used)
	}
	for _, s := range used {
		if u.known && s.Unit != policy.Requests && c.meter.quotas != nil {
			gabion.Spent(ctx, s.Unit, s.Amount)
		}
	}
}

// tellLeft tells the policy's quotas what an answer says of the server's.
func (m *meter) tellLeft(ctx context.Context, h http.Header) {
	if m.quotas != nil && speaks(h) {
		gabion.TellLeft(ctx, remaining(nil, h, time.Now())...)
	}
}

// costs adds to opts what the request is thought to use.
func (c *exchange) costs(opts []gabion.CallOption) []gabion.CallOption {
	if c.t.Cost == nil || c.meter.quotas == nil {
		return opts
	}
	var used []policy.Spend
	c.t.Cost(c.req, func(unit string, amount float64) {
		if len(used) < mostQuotas {
			used = append(used, policy.Spend{Unit: unit, Amount: amount})
		}
	})
	opts = opts[:len(opts):len(opts)]
	for _, s := range policy.Cost(c.meter.prices, used) {
		opts = append(opts, gabion.WithCost(s.Unit, s.Amount))
	}
	return opts
}

// CostOfModel is a [Transport.Cost] for model providers: input is a token for each four bytes of the request's JSON, output
// the most that the request allows (max_tokens, which most answers are far below), and tokens both. What answers say that they used corrects it,
// for the call and for later ones. A request whose body has no GetBody says nothing.
func CostOfModel(req *http.Request, use func(unit string, amount float64)) {
	const bytesOfToken = 4 // of English text, by the providers' own rule of thumb; learned from answers for other text
	m := readModel(req)
	if m.size == 0 {
		return
	}
	input := math.Ceil(float64(m.size) / bytesOfToken)
	use("input", input)
	if m.most > 0 {
		use("output", m.most)
	}
	use("tokens", input+m.most)
}
