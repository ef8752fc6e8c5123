package gabionhttp

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

const (
	// The last events of a stream of OpenAI's, of one of its Responses, and of Anthropic's, as their documents have them.
	chatStream      = "data: {\"choices\":[{\"delta\":{\"content\":\"say \\\"usage\\\": {\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29,\"prompt_tokens_details\":{\"cached_tokens\":4,\"audio_tokens\":0}}}\n\ndata: [DONE]\n\n"
	responsesStream = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":37,\"output_tokens\":11,\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":48}}}\n\n"
	messagesStream  = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Hello\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n"
)

func TestUsageOfAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       usage
	}{
		{"a completion", `{"id":"c","usage": {"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`, usage{input: 9, output: 12, total: 21, known: true}},
		{"a message", `{"content":[],"usage":{"input_tokens":10,"output_tokens":5}}`, usage{input: 10, output: 5, total: 15, known: true}},
		{"with a cache beside its input", `{"usage":{"input_tokens":10,"cache_creation_input_tokens":100,"cache_read_input_tokens":900,"output_tokens":5}}`, usage{input: 110, cached: 900, output: 5, total: 1015, known: true}},
		{"the end of a stream of chat", chatStream, usage{input: 15, cached: 4, output: 10, total: 29, known: true}},
		{"the end of a response's stream", responsesStream, usage{input: 37, output: 11, total: 48, known: true}},
		{"the last word on each number of a message's stream", messagesStream, usage{input: 25, output: 15, total: 40, known: true}},
		{"none", `{"id":"c"}`, usage{}},
		{"null", `{"usage":null}`, usage{}},
		{"a number", `{"usage":7,"x":{"input_tokens":1}}`, usage{}},
		{"text about it", `{"text":"\"usage\":{\"input_tokens\":5}"}`, usage{}},
		{"the word as a value", `{"kind":"usage","input_tokens":{"input_tokens":5}}`, usage{}},
		{"a tool's argument before the real one", `{"input":{"usage":{"input_tokens":7777}},"usage":{"input_tokens":1,"output_tokens":2}}`, usage{input: 1, output: 2, total: 3, known: true}},
		{"a tool's argument after the real one", `{"usage":{"input_tokens":1,"output_tokens":2},"content":[{"input":{"usage":{"input_tokens":7777}}}]}`, usage{input: 1, output: 2, total: 3, known: true}},
		{"a tool's argument alone", `{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":7777}}}]}`, usage{}},
		{"what was written to a cache, said again", "data: {\"message\":{\"usage\":{\"input_tokens\":10,\"cache_creation_input_tokens\":100}}}\r\n\r\ndata: {\"usage\":{\"cache_creation_input_tokens\":100,\"output_tokens\":5}}\r\n\r\n", usage{input: 110, output: 5, total: 115, known: true}},
		{"after a comment with a quote and an event that breaks off", ": it's \"ok\n\ndata: {\"choices\":[{\"a\":\r\n\r\ndata: {\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}\n\n", usage{input: 1, output: 2, total: 3, known: true}},
		{"after a byte order mark, over several lines", "\ufeff{\n \"usage\": \n {\n\"input_tokens\": 1,\r\n\"output_tokens\": 2\n}\n}\n", usage{input: 1, output: 2, total: 3, known: true}},
		{"negative", `{"usage":{"input_tokens":-5,"output_tokens":2}}`, usage{output: 2, total: 2, known: true}},
		{"more than can be meant", `{"usage":{"input_tokens":1e300,"output_tokens":2}}`, usage{output: 2, total: 2, known: true}},
		{"no number", `{"usage":{"input_tokens":"many"}}`, usage{}},
		{"more cached than all", `{"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":50}}}`, usage{input: 5, output: 1, total: 6, known: true}},
		{"cut off", `{"usage":{"input_tokens":5,"output_tok`, usage{}},
		{"longer than any", `{"usage":{"x":"` + strings.Repeat("a", mostUsage) + `","input_tokens":5}}`, usage{}},
		{"braces in a string", `{"usage":{"note":"}{\"}","input_tokens":5,"output_tokens":1}}`, usage{input: 5, output: 1, total: 6, known: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for size := 1; size <= len(tt.body); size = 2*size + 1 {
				if got := usageIn(tt.body, size); got != tt.want {
					t.Errorf("read %d bytes at a time: %+v, want %+v", size, got, tt.want)
				}
			}
		})
	}
}

func usageIn(body string, size int) usage {
	var u usageReader
	for at := 0; at < len(body); at += size {
		u.see([]byte(body[at:min(at+size, len(body))]))
	}
	return u.total()
}

// FuzzUsage: however an answer is cut into reads, the same is found, and it can be meant. Of an answer that is one JSON object
// without another "usage" in it, it is what encoding/json finds.
func FuzzUsage(f *testing.F) {
	for _, body := range []string{chatStream, messagesStream, `{"usage":{"input_tokens":1,"output_tokens":2}}`, `{"usage" : {"total_tokens":3}}`, `"usage""usage":{}`} {
		f.Add(body, uint64(1))
	}
	f.Fuzz(func(t *testing.T, body string, seed uint64) {
		whole := usageIn(body, len(body)+1)
		var u usageReader
		draw := rand.New(rand.NewPCG(seed, 1))
		for rest := body; rest != ""; {
			n := 1 + draw.IntN(min(len(rest), 9))
			u.see([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got := u.total(); got != whole {
			t.Fatalf("%q: %+v in parts, and %+v at once", body, got, whole)
		}
		for _, n := range [...]float64{whole.input, whole.cached, whole.output, whole.total} {
			if math.IsNaN(n) || n < 0 || n > 3*mostTokens {
				t.Fatalf("%q: %+v", body, whole)
			}
		}
		var object struct{ Usage json.RawMessage }
		if strings.Count(body, "usage") == 1 && json.Unmarshal([]byte(body), &object) == nil && len(object.Usage) > 0 && object.Usage[0] == '{' && len(object.Usage) < mostUsage {
			var want usage
			if want.add(object.Usage); want != whole {
				t.Fatalf("%q: %+v, want %+v", body, whole, want)
			}
		}
	})
}

func TestByModel(t *testing.T) {
	for _, tt := range []struct{ name, url, body, want string }{
		{"host and model", "https://api.openai.com/v1/chat/completions", `{"messages":[{"role":"user","content":"\"model\":\"x\""}],"model":"gpt-5"}`, "api.openai.com gpt-5"},
		{"a model below is another thing", "https://api.openai.com/v1", `{"metadata":{"model":"x"},"list":["model","y"]}`, "api.openai.com"},
		{"a deployment", "https://r.openai.azure.com/openai/deployments/mine/chat/completions?api-version=1", `{}`, "r.openai.azure.com mine"},
		{"a path with a method", "https://g.test/v1beta/models/gemini-3:generateContent", ``, "g.test gemini-3"},
		{"the path ends before the model", "https://g.test/v1beta/models", ``, "g.test"},
		{"no model's name", "https://g.test/", `{"model":"a b"}`, "g.test"},
		{"a model that is no string", "https://g.test/", `{"model":5}`, "g.test"},
		{"cut off", "https://g.test/", `{"model":"gpt`, "g.test gp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequest("POST", tt.url, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.name == "cut off" { // it is never sent so; nothing panics
				ByModel(req)
				return
			}
			if got := ByModel(req); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			req.Header.Set("Authorization", "Bearer sk-1")
			one := ByModel(req)
			req.Header.Set("Authorization", "Bearer sk-2")
			if two := ByModel(req); one == two || len(one) != len(tt.want)+7 || strings.Contains(one, "sk") {
				t.Errorf("two keys are %q and %q", one, two)
			}
			req.GetBody = nil
			ByModel(req)
		})
	}
}

// FuzzFields: what is found of an object is what encoding/json finds.
func FuzzFields(f *testing.F) {
	for _, s := range []string{`{"model":"m","max_tokens":5}`, `{"a":{"model":"x"},"model":"y"}`, `[1,{"a":2}]`, `{"a":[{}],"b":null}`, `{"`, `}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := map[string]string{}
		fields([]byte(text), func(k, v []byte) { got[string(k)] = string(v) })
		var want map[string]json.RawMessage
		if strings.Contains(text, `\`) || json.Unmarshal([]byte(text), &want) != nil {
			return
		}
		for k, v := range want {
			if v[0] != '{' && v[0] != '[' && strings.ToValidUTF8(text, "") == text && got[k] != string(v) {
				t.Fatalf("%s: %q is %q, want %q", text, k, got[k], v)
			}
		}
	})
}
