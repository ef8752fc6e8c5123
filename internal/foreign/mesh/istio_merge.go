package mesh

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// root is the route that hands over to a VirtualService. What the latter leaves out of times and retries, it has
// from there.
func (r *istio) root(delegate *foreign.Value) *foreign.Value {
	if r.roots == nil {
		r.roots = map[string]*foreign.Value{}
		for _, s := range r.services {
			for _, v := range s.Get("spec.http").All() {
				if of := v.Get("delegate"); of != nil {
					name := cmp.Or(textOf(of.Tree.Get("namespace")), namespaceOf(s)) + "/" + textOf(of.Tree.Get("name"))
					r.roots[name] = cmp.Or(r.roots[name], v)
				}
			}
		}
	}
	return r.roots[namespaceOf(delegate)+"/"+delegate.Get("metadata.name").Word("")]
}

// meshNamespace is where rules for all namespaces stand.
const meshNamespace = "istio-system"

// of finds the DestinationRules that count for a host and clients of a namespace: those of the clients' namespace, else of
// the host's, else of the mesh's. A host of which the file has no namespace may be one that another object names.
func (r *istio) of(host, client string) []*destination {
	_, own, _ := strings.Cut(host, ".")
	for _, namespace := range []string{client, own, meshNamespace} {
		if all := r.in(host, client, func(d *destination) bool { return namespaceOf(d.Value) == namespace }); all != nil {
			return all
		}
	}
	if slices.ContainsFunc(r.rules, func(d *destination) bool { return namespaceOf(d.Value) == own }) {
		return nil
	}
	return r.in(host, client, func(*destination) bool { return true })
}

// in finds the DestinationRules of a host among some: those that name it, else those of the longest pattern that it fits.
func (r *istio) in(host, client string, among func(*destination) bool) (all []*destination) {
	longest := -1
	for _, d := range r.rules {
		n := len(host) + 1
		if end, pattern := strings.CutPrefix(d.written, "*"); pattern {
			n = len(end)
			if !strings.HasSuffix(host, end) && !strings.HasSuffix(host+".svc.cluster.local", end) {
				continue
			}
		} else if d.host != host {
			continue
		}
		if !among(d) {
			continue
		}
		if !d.seenFrom(client) {
			r.Remark(d.Get("spec.exportTo"), foreign.Lost, "it is not for clients in "+short(client)+", whose routes are read without it")
			continue
		}
		if n > longest {
			all, longest = nil, n
		}
		if n == longest {
			all = append(all, d)
		}
	}
	return all
}

// seenFrom reports whether a DestinationRule is for clients of a namespace.
func (d *destination) seenFrom(client string) bool {
	to := treesOf(d.Tree.Get("spec").Get("exportTo"))
	return len(to) == 0 || slices.ContainsFunc(to, func(t *yamlstrict.Tree) bool {
		return t.Text == "*" || t.Text == client || t.Text == "." && namespaceOf(d.Value) == client
	})
}

// older puts the DestinationRule first that the cluster made first, as Istio does, where the file says when that was.
func older(a, b *destination) int {
	made := func(d *destination) string { return textOf(d.Tree.Get("metadata").Get("creationTimestamp")) }
	if made(a) == "" || made(b) == "" {
		return 0
	}
	return cmp.Compare(made(a), made(b))
}

// rule takes what DestinationRules say of a subset and a port. Of several for one host the first that says
// something of all traffic counts for that, and the subsets of all. A port's settings replace all others; a
// subset's replace them section by section.
func (r *istio) rule(p *plan, all []*destination, subset string, port float64) {
	from := []*foreign.Value{nil}
	for _, d := range all {
		switch v := d.Get("spec.trafficPolicy"); {
		case v == nil:
		case from[0] == nil:
			from[0] = v
		default:
			r.Remark(v, foreign.Lost, "another DestinationRule for this host comes before it, and its trafficPolicy counts")
		}
	}
	for _, d := range all {
		for _, s := range d.Get("spec.subsets").All() {
			if subset != "" && s.Get("name").Word("") == subset && len(from) == 1 {
				from = append(from, s.Get("trafficPolicy"))
				d.used[subset] = true
			}
		}
	}
	general := true
	for i := len(from) - 1; i >= 0; i-- {
		for _, of := range from[i].Get("portLevelSettings").All() {
			if port > 0 && of.Get("port.number").NumberOr(0) == port {
				from, i, general = []*foreign.Value{of}, -1, false
				break
			}
		}
	}
	for _, d := range all {
		d.used[""] = d.used[""] || general
	}
	section := func(key string) *foreign.Value {
		for i := len(from) - 1; i >= 0; i-- {
			if v := from[i].Get(key); v != nil {
				return v
			}
		}
		return nil
	}
	r.pool(p, section("connectionPool"))
	r.retryBudget(p, section("retryBudget"))
	r.outliers(p, section("outlierDetection"))
}
