package gabionhttp

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/adapter"
)

// pool is what a Transport has to do with the connections of its Base.
type pool struct {
	once    sync.Once
	own     *http.Transport // in place of a nil Base
	dialled atomic.Int64    // connections of a Base of the caller's
}

// mostIdle is how many idle connections are kept to a host where no bulkhead bounds the
// calls.
const mostIdle = 256

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	std, ok := http.DefaultTransport.(*http.Transport)
	if !ok || t.Dependency == nil {
		return http.DefaultTransport
	}
	t.pool.once.Do(func() {
		t.pool.own = std.Clone()
		t.pool.own.MaxIdleConnsPerHost = max(std.MaxIdleConnsPerHost, t.atOnce())
		if std.MaxIdleConns > 0 {
			t.pool.own.MaxIdleConns = max(std.MaxIdleConns, t.atOnce())
		}
	})
	return t.pool.own
}

// atOnce is how many calls the policy lets out at once.
func (t *Transport) atOnce() int {
	if b := adapter.Of(t.Dependency).PolicyInForce().Bulkhead; !b.Off && b.Limit > 0 {
		return b.Limit
	}
	return mostIdle
}

// churns warns once when a Base of the caller's throws connections away that the next
// call needs: when it made more than could ever be in use at once, and keeps fewer.
func (t *Transport) churns() {
	std, ok := t.Base.(*http.Transport)
	if !ok || std.DisableKeepAlives || t.pool.dialled.Add(1) != int64(t.atOnce())+1 {
		return
	}
	keeps := std.MaxIdleConnsPerHost
	if keeps == 0 {
		keeps = http.DefaultMaxIdleConnsPerHost
	}
	if keeps >= t.atOnce() {
		return
	}
	slog.Default().Warn(fmt.Sprintf("gabionhttp: Base made more connections than there can be calls at once, since it keeps %d idle ones to a host and throws the others away: set its MaxIdleConnsPerHost to %d, or leave Base nil", keeps, t.atOnce()),
		"dependency", t.Dependency.Name(), "bulkhead", t.atOnce(), "max_idle_conns_per_host", keeps)
}
