package gabionproxy

import (
	"reflect"

	"github.com/gabion-go/gabion/config"
)

// Shown is what operators see of a configuration.
func Shown(c config.Proxy) any { return plain(reflect.ValueOf(c)) }
