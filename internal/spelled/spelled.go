// Package spelled writes the values of policies as gabion's file spells them.
package spelled

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// Value writes one value of a policy as a file would. A duration of zero, which a file can't
// say because its key is then left out, is empty.
func Value(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		if d == 0 {
			return ""
		}
		return policy.FormatDuration(d)
	}
	if v.CanFloat() && v.Float() == 0 || v.CanInt() && v.Int() == 0 { // no such rule
		return "off"
	}
	if text, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, _ := text.MarshalText()
		return string(b)
	}
	switch v.Kind() {
	case reflect.Int:
		if v.Int() == policy.Learned {
			return "learned"
		}
		return offOr(v.Int() == policy.Off, strconv.FormatInt(v.Int(), 10))
	case reflect.Float64:
		return offOr(v.Float() == policy.Off, strconv.FormatFloat(v.Float(), 'f', -1, 64))
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	}
	return list(v)
}

func offOr(off bool, text string) string {
	if off {
		return "off"
	}
	return text
}

func list(v reflect.Value) string {
	items := make([]string, v.Len())
	for i := range items {
		items[i] = fmt.Sprint(v.Index(i))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// Setting is a key of a policy that says something, such as retry.attempts, and its value as
// a file spells it.
type Setting struct{ Path, Value string }

// Written returns what a policy says, in the order of its fields: read again it is the
// same policy. A section that is off is one setting, and what else it holds is left out.
func Written(p policy.Policy) []Setting { return written(nil, reflect.ValueOf(p), "") }

func written(all []Setting, v reflect.Value, path string) []Setting {
	if off := v.FieldByName("Off"); off.IsValid() && off.Bool() {
		return append(all, Setting{path, "off"})
	}
	for i := range v.NumField() {
		f, at := v.Field(i), yamlstrict.Snake(v.Type().Field(i).Name)
		if path != "" {
			at = path + "." + at
		}
		switch {
		case f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0:
		case f.Kind() == reflect.Struct:
			all = written(all, f, at)
		default:
			all = append(all, Setting{at, Value(f)})
		}
	}
	return all
}
