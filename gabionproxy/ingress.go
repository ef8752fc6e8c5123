package gabionproxy

import (
	"errors"
	"net/http"

	"github.com/gabion-go/gabion/config"
)

// ingress makes the handler before a program.
func (p *Proxy) ingress(c config.ProxyIngress) (http.Handler, error) {
	return nil, errors.New("ingress is not there yet")
}
