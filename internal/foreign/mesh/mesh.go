// Package mesh reads what the files of meshes and proxies say about calls that fail: Istio, the
// Gateway API, Envoy and Linkerd. What becomes of each key is data: tables of foreign.Rule, each line with
// the address of the document that says what the key means.
package mesh

import (
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// Formats returns the formats, the most particular first, in which order Like is asked.
func Formats() []foreign.Format {
	return []foreign.Format{
		{Name: "istio", Title: "Istio: VirtualService and DestinationRule", Source: istioVirtual, Tables: []*foreign.Table{istioVirtualService, istioDestinationRule}, Like: likeIstio, Read: readIstio},
		{Name: "linkerd", Title: "Linkerd: annotations and ServiceProfile", Source: linkerdRetries, Tables: []*foreign.Table{linkerdAnnotations, linkerdService, linkerdProfile}, Like: likeLinkerd, Read: readLinkerd},
		{Name: "gateway-api", Aliases: []string{"gateway"}, Title: "Gateway API: HTTPRoute, GRPCRoute and XBackendTrafficPolicy", Source: gatewayRoute, Tables: []*foreign.Table{httpRoute, grpcRoute, backendTraffic}, Like: likeGateway, Read: readGateway},
		{Name: "envoy", Title: "Envoy: bootstrap, xDS, routes and clusters", Source: envoyRoute, Tables: []*foreign.Table{envoyRoutes, envoyClusters, envoyListeners, envoyBootstrap}, Like: likeEnvoy, Read: readEnvoy},
	}
}

// objects are the Kubernetes objects of a file, those of lists as well.
func objects(documents []*yamlstrict.Tree) []*yamlstrict.Tree {
	var all []*yamlstrict.Tree
	for _, d := range documents {
		if items := d.Get("items"); textOf(d.Get("kind")) == "List" && items != nil && items.Kind == yamlstrict.List {
			all = append(all, items.Items...)
			continue
		}
		all = append(all, d)
	}
	return all
}

func textOf(t *yamlstrict.Tree) string {
	if t == nil || t.Kind != yamlstrict.Text {
		return ""
	}
	return t.Text
}

// notRead are kinds that say something about calls that fail, and are not read.
var notRead = []struct{ group, kind, text string }{
	{"networking.istio.io", "EnvoyFilter", "an EnvoyFilter changes what Istio makes for Envoy, also retries, times and bounds. It is not read: where it does, the mesh does not do what is said of it here"},
	{"networking.istio.io", "Sidecar", "a Sidecar may bound the connections and requests that come in. It is not read: those bounds count in the mesh, and not here"},
	{"install.istio.io", "IstioOperator", "meshConfig.defaultHttpRetryPolicy and other defaults of the mesh are not read: where they are set, a silent route does not do what is said of it here"},
	{"gateway.envoyproxy.io", "BackendTrafficPolicy", "Envoy Gateway's retry, timeout, circuitBreaker and rateLimit are not read: what it says is done there, and not here"},
	{"policy.linkerd.io", "HTTPLocalRateLimitPolicy", "it bounds the requests that a server takes, and is not read: rate_limit bounds those that are sent"},
}

// other says of an object of another kind that it is not read.
func other(w *foreign.Walker, t *yamlstrict.Tree) {
	kind := t.Get("kind")
	text := "an object of kind " + short(textOf(kind)) + " says nothing of calls that fail that is read here"
	if textOf(kind) == "" {
		text = "this document has no kind: it is not read"
	}
	v := &foreign.Value{Path: "kind", Tree: t, Key: t}
	if kind != nil {
		v.Tree, v.Key = kind, kind
	}
	fate := foreign.Elsewhere
	for _, o := range notRead {
		if group, _, _ := strings.Cut(textOf(t.Get("apiVersion")), "/"); o.kind == textOf(kind) && o.group == group {
			fate, text = foreign.Unknown, o.text
		}
	}
	w.Remark(v, fate, text)
}
