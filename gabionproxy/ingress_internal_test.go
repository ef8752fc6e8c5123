package gabionproxy

import (
	"net/http"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

func TestAGateGoesByWhatIsInForce(t *testing.T) {
	r := &http.Request{Header: http.Header{"X-Request-Priority": {"high"}, "X-A": {"a"}, "X-B": {"b"}}}
	g := newGate(&behind{admission: config.ProxyAdmission{TenantHeader: "X-A"}})
	for _, c := range []struct {
		fact     string
		in       config.ProxyAdmission
		tenant   string
		priority policy.Priority
	}{
		{"callers are not believed", config.ProxyAdmission{TenantHeader: "X-A"}, "a", policy.PriorityNormal},
		{"callers are believed", config.ProxyAdmission{TenantHeader: "X-A", TrustPriority: true}, "a", policy.PriorityHigh},
		{"another header has the tenant", config.ProxyAdmission{TenantHeader: "X-B"}, "b", policy.PriorityNormal},
	} {
		g.behind.Store(&behind{admission: c.in})
		if tenant, priority := g.Tenant(r), g.Priority(r); tenant != c.tenant || priority != c.priority {
			t.Errorf("%s: tenant %q, priority %v", c.fact, tenant, priority)
		}
	}
}
