package export

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// fieldAt is the value of a key, such as retry.attempts, of a policy.
func fieldAt(v reflect.Value, key string) reflect.Value {
	for word := range strings.SplitSeq(key, ".") {
		v = v.FieldByNameFunc(func(name string) bool { return yamlstrict.Snake(name) == word })
	}
	return v
}

// valueAt spells what a policy says of a key. It is empty for sections.
func valueAt(p policy.Policy, key string) string {
	switch v := fieldAt(reflect.ValueOf(p), key).Interface().(type) {
	case time.Duration:
		return policy.FormatDuration(v)
	case backoff.Backoff:
		return waits(v)
	case policy.Ratio:
		return v.String()
	case policy.Budget:
		if v.Off {
			return "off"
		}
		return v.Shape.String()
	case int:
		switch v {
		case policy.Off:
			return "off"
		case policy.Learned:
			return "learned"
		}
		return fmt.Sprint(v)
	case []int:
		return numbers(v)
	case bool, float64, policy.PerSecond, policy.Trust, policy.KeyMode:
		return fmt.Sprint(v)
	}
	return ""
}

// waits says how a backoff waits.
func waits(b backoff.Backoff) string {
	switch {
	case b.Base <= 0:
		return "no wait"
	case b.Base == b.Cap:
		return b.Kind.String() + " " + policy.FormatDuration(b.Base)
	}
	return b.Kind.String() + " " + policy.FormatDuration(b.Base) + " to " + policy.FormatDuration(b.Cap)
}

// differing are the keys in which two policies differ.
func differing(a, b policy.Policy) (paths []string) {
	diff(reflect.ValueOf(a), reflect.ValueOf(b), "", &paths)
	return paths
}

func diff(a, b reflect.Value, path string, paths *[]string) {
	if a.Kind() != reflect.Struct {
		if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
			return
		}
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			*paths = append(*paths, path)
		}
		return
	}
	for i := range a.NumField() {
		name := yamlstrict.Snake(a.Type().Field(i).Name)
		if path != "" {
			name = path + "." + name
		}
		diff(a.Field(i), b.Field(i), name, paths)
	}
}
