package gabionproxy

import (
	"errors"
	"net/http"

	"github.com/gabion-go/gabion/config"
)

// forward makes the handler of a forward proxy.
func (p *Proxy) forward(t *tree, allowed []config.ProxyForward, before *tree) (http.Handler, error) {
	return nil, errors.New("a forward proxy is not there yet")
}
