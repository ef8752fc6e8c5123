package mesh

import (
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// ruling are headers of a request that count for Envoy before what a route says of retries and times.
var ruling = map[string]bool{
	"x-envoy-max-retries": true, "x-envoy-retry-on": true, "x-envoy-retry-grpc-on": true, "x-envoy-retriable-status-codes": true,
	"x-envoy-retriable-header-names": true, "x-envoy-hedge-on-per-try-timeout": true,
	"x-envoy-upstream-rq-timeout-ms": true, "x-envoy-upstream-rq-per-try-timeout-ms": true,
}

// headers names the places where a file writes such a header into requests: as a key, or as the name of one to add. A match only reads it.
func headers(w *foreign.Walker, t *yamlstrict.Tree, path string) {
	for _, item := range t.Items {
		headers(w, item, path+"[]")
	}
	for _, p := range t.Pairs {
		at, name := strings.TrimPrefix(path+"."+p.Key.Text, "."), p.Key.Text
		if name == "key" {
			name = p.Value.Text
		}
		if header := strings.ToLower(name); ruling[header] {
			v := &foreign.Value{Path: at, Key: p.Key, Tree: p.Value}
			w.Remark(v, foreign.Lost, "the header "+header+" counts there before what the route says, and is not read: write its value as the route's")
		}
		if name != "match" && name != "response" && name != "response_headers_to_add" && name != "responseHeadersToAdd" {
			headers(w, p.Value, at)
		}
	}
}
