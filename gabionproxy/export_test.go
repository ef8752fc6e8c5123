package gabionproxy

import (
	"net/http"
	"reflect"

	"github.com/gabion-go/gabion/config"
)

// Sends is what sends requests to a server, where base would without telemetry.
func Sends(o Options, base http.RoundTripper) http.RoundTripper {
	return followed(o.Telemetry, "", base)
}

// Shown is what operators see of a configuration.
func Shown(c config.Proxy) any { return plain(reflect.ValueOf(c)) }
