package gabionhttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// keyNames are the headers in which model providers are told who asks.
var keyNames = [...]string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// ByModel is a [Transport.Partition] for model providers, whose quotas and outages concern one model and one
// key: the host, the model, and the first six hexadecimal digits of the SHA-256 of the key, as in
// "api.openai.com gpt-5 1a2b3c". The model is that of the request's JSON, where the body has GetBody, or of its path, as
// in /deployments/gpt-5/ and /models/gpt-5:generate. What a request does not say is left out.
func ByModel(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	name := hostOf(req.URL.Scheme, req.URL.Host)
	model := modelOfPath(req.URL.Path)
	if said := readModel(req); said.model != "" {
		model = said.model
	}
	if model != "" {
		name += " " + model
	}
	for _, header := range keyNames {
		if key := req.Header.Get(header); key != "" {
			sum := sha256.Sum256([]byte(key))
			return name + " " + hex.EncodeToString(sum[:3])
		}
	}
	return name
}

func modelOfPath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts[:len(parts)-1] {
		if part == "deployments" || part == "models" {
			model, _, _ := strings.Cut(parts[i+1], ":")
			return plainModel(model)
		}
	}
	return ""
}

// plainModel is a model's name if it looks like one.
func plainModel(s string) string {
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return ""
	}
	return s
}

// modelRequest is what the JSON of a request to a model provider says.
type modelRequest struct {
	model string
	size  int     // bytes
	most  float64 // tokens of the answer; zero: it does not say
}

// mostRequest is how many bytes of a request are looked at. Longer ones have pictures in them.
const mostRequest = 1 << 20

// readModel looks at a copy of the request's body.
func readModel(req *http.Request) (m modelRequest) {
	if req.GetBody == nil || req.Body == nil || req.Body == http.NoBody {
		return m
	}
	body, err := req.GetBody()
	if err != nil || body == nil {
		return m
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, mostRequest))
	if err != nil {
		return m
	}
	m.size = max(len(text), int(req.ContentLength))
	fields(text, func(key, value []byte) {
		switch string(key) {
		case "model":
			if len(value) > 1 && value[0] == '"' {
				m.model = plainModel(string(value[1 : len(value)-1]))
			}
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			if n, err := strconv.ParseFloat(string(value), 64); err == nil && n >= 0 && n <= mostTokens {
				m.most = max(m.most, n)
			}
		}
	})
	return m
}

// fields calls f for each field of a JSON object whose value is no object and no list, with the text
// of both. What is no JSON ends it.
func fields(text []byte, f func(key, value []byte)) {
	depth, key := 0, []byte(nil)
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '{', '[':
			depth++
			key = nil
			i++
		case '}', ']':
			depth--
			key = nil
			i++
		case ',':
			key = nil
			i++
		case ' ', '\t', '\r', '\n', ':':
			i++
		default:
			end := i + scalar(text[i:])
			if depth == 1 && key == nil && c == '"' {
				key = text[i+1 : max(end-1, i+1)]
			} else if depth == 1 && key != nil {
				f(key, text[i:end])
			}
			i = end
		}
	}
}

// scalar is the length of the string, number or word that text begins with.
func scalar(text []byte) int {
	if text[0] != '"' {
		if n := bytes.IndexAny(text, ",:{}[]\" \t\r\n"); n > 0 {
			return n
		}
		return len(text)
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
