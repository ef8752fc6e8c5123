package gabionhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
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
)

var usageKey = []byte(`"usage"`)

// usageReader finds the usage in an answer while the caller reads it: in a JSON object, or in the events of a
// stream, where the last word on each number counts. It keeps no more than the object that it is reading, and
// changes nothing. Text of the answer can't be taken for a usage, for its quotes are escaped.
type usageReader struct {
	found   usage
	matched int  // bytes of usageKey that were the last ones
	valued  bool // the key was read whole, and its value is to come
	depth   int  // of braces in object
	quoted  bool // in a string of object
	escaped bool
	object  []byte
}

// see reads what came of the answer.
func (u *usageReader) see(p []byte) {
	for len(p) > 0 {
		switch {
		case u.depth > 0:
			p = p[u.capture(p):]
		case u.valued:
			p = p[u.value(p):]
		default:
			p = p[u.look(p):]
		}
	}
}

// look looks for the key, which may be split between two reads. It returns how far it came.
func (u *usageReader) look(p []byte) int {
	if u.matched > 0 {
		switch p[0] {
		case usageKey[u.matched]:
			if u.matched++; u.matched == len(usageKey) {
				u.matched, u.valued = 0, true
			}
		case usageKey[0]: // the key's only beginning in itself is its end
			u.matched = 1
		default:
			u.matched = 0
		}
		return 1
	}
	if i := bytes.Index(p, usageKey); i >= 0 {
		u.valued = true
		return i + len(usageKey)
	}
	for n := min(len(usageKey)-1, len(p)); n > 0; n-- {
		if bytes.HasSuffix(p, usageKey[:n]) {
			u.matched = n
			break
		}
	}
	return len(p)
}

// value looks at what follows the key: an object, or anything else, such as null.
func (u *usageReader) value(p []byte) int {
	switch p[0] {
	case ' ', '\t', '\r', '\n', ':':
		return 1
	case '{':
		u.depth, u.object = 1, append(u.object[:0], '{')
		u.valued = false
		return 1
	}
	u.valued = false
	return 0
}

// capture reads the object to its end.
func (u *usageReader) capture(p []byte) int {
	for i, c := range p {
		switch {
		case u.escaped:
			u.escaped = false
		case u.quoted:
			u.escaped, u.quoted = c == '\\', c != '"'
		case c == '"':
			u.quoted = true
		case c == '{':
			u.depth++
		case c == '}':
			u.depth--
		}
		if u.object = append(u.object, c); u.depth == 0 || len(u.object) == mostUsage {
			if u.depth == 0 {
				u.found.add(u.object)
			}
			u.depth, u.quoted, u.escaped = 0, false, false
			return i + 1
		}
	}
	return len(p)
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
		}
	}
	if tokens(said.Written) {
		u.input += *said.Written
	}
	if tokens(said.Read) {
		u.cached = *said.Read
	}
	for _, of := range [...]*float64{said.PromptOf.Cached, said.InputOf.Cached} {
		if tokens(of) && *of <= u.input {
			u.cached, u.input = *of, u.input-*of
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
func (c *exchange) spent(ctx context.Context, u *usage) {
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
// the most that the request allows, and tokens both. What answers say that they used corrects it,
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
