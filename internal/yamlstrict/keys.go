package yamlstrict

import (
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// keysOfNames remembers what Snake returned: Go programs have few names of fields.
var keysOfNames sync.Map // by name

// Snake returns the key of a Go field: MaxAfter is max_after, HTTP is http.
func Snake(name string) string {
	if key, ok := keysOfNames.Load(name); ok {
		return key.(string)
	}
	key := snake(name)
	keysOfNames.Store(name, key)
	return key
}

func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// whereIs returns the section in which a key exists, or "".
func whereIs(key string, t reflect.Type, path string) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	for _, f := range fieldsOf(t) {
		if f.key == key && path != "" {
			return path
		}
		if found := whereIs(key, f.typ, join(path, f.key)); found != "" {
			return found
		}
	}
	return ""
}
