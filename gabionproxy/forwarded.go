package gabionproxy

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
)

// peers are the addresses of balancers that stand before an ingress and say whom they speak for.
type peers []netip.Prefix

func readPeers(texts []string) (all peers, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			one, bad := netip.ParseAddr(text)
			if bad != nil {
				return nil, err
			}
			p = netip.PrefixFrom(one, one.BitLen())
		}
		if at := p.Addr(); at.Is4In6() && p.Bits() >= 96 { // as connections are compared
			p = netip.PrefixFrom(at.Unmap(), p.Bits()-96)
		}
		all = append(all, p)
	}
	return all, nil
}

// has reports whether a connection is from one of them.
func (p peers) has(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	from := at.Addr().Unmap().WithZone("")
	for _, one := range p {
		if one.Contains(from) {
			return true
		}
	}
	return false
}

// forwarded tells the program of the client. What a request says of that by itself counts only from a trusted peer:
// its X-Forwarded-For goes on with the peer's address behind it, and of its host and scheme one plain value each.
func (g *program) forwarded(pr *httputil.ProxyRequest) {
	in, out := pr.In.Header, pr.Out.Header
	if !g.trusted.has(pr.In.RemoteAddr) {
		for name := range out {
			if tellsOfClient(name) {
				delete(out, name)
			}
		}
		pr.SetXForwarded()
		return
	}
	out["X-Forwarded-For"] = in["X-Forwarded-For"]
	pr.SetXForwarded()
	if lines := in["X-Forwarded-Proto"]; len(lines) == 1 && (lines[0] == "https" || lines[0] == "http") {
		out["X-Forwarded-Proto"] = lines
	}
	if lines := in["X-Forwarded-Host"]; len(lines) == 1 && lines[0] != "" && !strings.ContainsAny(lines[0], ", ") {
		out["X-Forwarded-Host"] = lines
	}
}

// tellsOfClient reports whether a header is one with which balancers tell whom they speak for.
func tellsOfClient(name string) bool {
	name = noUnderscores(name)
	return strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || name == "X-Real-Ip"
}

// noUnderscores is a header's name as CGI and its heirs read it, which can't tell the two signs apart.
func noUnderscores(name string) string {
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
