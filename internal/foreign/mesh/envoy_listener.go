package mesh

import (
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// layered is the list of the runtime's layers.
func layered(t *yamlstrict.Tree) *yamlstrict.Tree {
	for _, key := range []string{"layered_runtime", "layeredRuntime"} {
		if v := t.Get(key); v != nil {
			return v.Get("layers")
		}
	}
	return nil
}

func (r *envoy) listener(v *foreign.Value) {
	chains := v.Get("filter_chains").All()
	if last := v.Get("default_filter_chain"); last != nil {
		chains = append(slices.Clone(chains), last)
	}
	for _, chain := range chains {
		for _, filter := range chain.Get("filters").All() {
			manager := filter.Get("typed_config")
			for _, f := range manager.Get("http_filters").All() {
				r.filter(f.Get("name"))
			}
			if config := manager.Get("route_config"); config != nil {
				r.routes = append(r.routes, routesOf{config: config, manager: manager})
			}
		}
	}
}

// filters are those of Envoy that refuse, delay or break calls, and what gabion has instead.
var filters = map[string]string{
	"admission_control":    "refuses calls while many fail. It is not read: admission does that",
	"adaptive_concurrency": "bounds the calls at once by their latency. It is not read: bulkhead.limit: learned does that",
	"local_ratelimit":      "bounds the rate of calls. It is not read: rate_limit does that",
	"ratelimit":            "bounds the rate of calls by a service of its own. It is not read, and rate_limit knows only its own process",
	"fault":                "makes calls fail on purpose. It is not read: gabion's lab does that to a policy",
}

func (r *envoy) filter(name *foreign.Value) {
	if text, ok := filters[strings.TrimPrefix(name.Word(""), "envoy.filters.http.")]; ok {
		r.Remark(name, foreign.Lost, "this filter "+text)
	}
}

// runtime says of a layer of the runtime that it changes bounds that the file says elsewhere.
func (r *envoy) runtime(t *yamlstrict.Tree, path string) {
	if t == nil {
		return
	}
	for _, pair := range t.Pairs {
		key := strings.TrimPrefix(path+"."+pair.Key.Text, ".")
		if pair.Value.Kind == yamlstrict.Map {
			r.runtime(pair.Value, key)
			continue
		}
		for _, of := range []string{"circuit_breakers.", "outlier_detection.", "upstream.use_retry", "upstream.healthy_panic_threshold", "upstream.base_retry_backoff_ms"} {
			if strings.HasPrefix(key, of) {
				r.Remark(&foreign.Value{Path: key, Tree: pair.Value, Key: pair.Key}, foreign.Lost, "the runtime says {} here, which counts in Envoy before what the cluster or the route says. It is not read")
			}
		}
	}
}
