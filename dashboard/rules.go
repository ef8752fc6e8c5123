package dashboard

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/gabion-go/gabion/policy"
)

// settingsOf lists a resolved policy. A value that the policy would have anyway, given its other values
// or given none, counts as a default: the policy does not say who wrote it.
func settingsOf(p policy.Policy) []policy.Setting {
	var all []policy.Setting
	zero := reflect.ValueOf(policy.Policy{}.Resolved())
	rulesIn(reflect.ValueOf(&p).Elem(), "", func(path string, v reflect.Value) {
		s := policy.Setting{Path: path, Value: spelled(v), Source: "set in code or file"}
		was := reflect.ValueOf(v.Interface())
		v.SetZero()
		same := fieldAt(reflect.ValueOf(p.Resolved()), path).Interface()
		v.Set(was)
		if reflect.DeepEqual(same, was.Interface()) || reflect.DeepEqual(fieldAt(zero, path).Interface(), was.Interface()) {
			s.Source = "default"
		}
		all = append(all, s)
	})
	return all
}

// rulesIn calls do for each rule below v. A part that is off is one rule.
func rulesIn(v reflect.Value, path string, do func(string, reflect.Value)) {
	if off := v.FieldByName("Off"); off.IsValid() && off.Bool() {
		do(joined(path, "off"), off)
		return
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name == "Off" {
			continue
		}
		if f, at := v.Field(i), joined(path, snake(name)); f.Kind() == reflect.Struct {
			rulesIn(f, at, do)
		} else {
			do(at, f)
		}
	}
}

// fieldAt finds the rule of that path again.
func fieldAt(v reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		for i := range v.NumField() {
			if snake(v.Type().Field(i).Name) == name {
				v = v.Field(i)
				break
			}
		}
	}
	return v
}

func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// snake is a field's name as files write it.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		lower := i > 0 && unicode.IsLower(rune(name[i-1]))
		next := i+1 < len(name) && unicode.IsLower(rune(name[i+1]))
		if i > 0 && unicode.IsUpper(r) && (lower || next) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// spelled is a value as files spell it.
func spelled(v reflect.Value) string {
	if v.Kind() == reflect.Bool {
		return map[bool]string{true: "yes", false: "no"}[v.Bool()]
	}
	if n, ok := v.Interface().(time.Duration); ok {
		if n == policy.Off || n == 0 {
			return "off"
		}
		return policy.FormatDuration(n)
	}
	if (v.CanFloat() && (v.Float() == 0 || v.Float() == policy.Off)) || (v.CanInt() && (v.Int() == 0 || v.Int() == policy.Off)) {
		return "off"
	}
	if text, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, _ := text.MarshalText()
		return string(b)
	}
	if v.Kind() == reflect.Slice && v.Len() == 0 {
		return "none"
	}
	return fmt.Sprint(v.Interface())
}
