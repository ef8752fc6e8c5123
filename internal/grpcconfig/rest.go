package grpcconfig

import "strings"

// rest writes what stays gRPC's as a service config of its own. Methods that keep nothing
// are named too, if others are: what is said of all methods is not said of them.
func (r *reader) rest(read []methodConfig, f map[string]*node) string {
	var parts []string
	for _, key := range []string{"loadBalancingConfig", "loadBalancingPolicy", "healthCheckConfig"} {
		if at := f[key]; at != nil {
			parts = append(parts, `"`+key+`": `+r.written(at))
		}
	}
	var methods []string
	keeps := false
	for _, m := range read {
		if len(m.names) == 0 {
			continue
		}
		kept := []string{`"name": ` + r.written(m.fields["name"])}
		for _, key := range []string{"waitForReady", "maxRequestMessageBytes", "maxResponseMessageBytes"} {
			if at := m.fields[key]; at != nil {
				kept = append(kept, `"`+key+`": `+r.written(at))
			}
		}
		keeps = keeps || len(kept) > 1
		methods = append(methods, "{"+strings.Join(kept, ", ")+"}")
	}
	if keeps {
		parts = append(parts, `"methodConfig": [`+strings.Join(methods, ", ")+"]")
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (r *reader) written(n *node) string { return r.document.text[n.at:n.end] }
