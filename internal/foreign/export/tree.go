package export

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// object is a mapping in the order in which it is written. Pairs whose value is nil are left out,
// and so are objects and lists that are empty then.
type object []pair

type pair struct {
	key   string
	value any // object, list, string, bool, int, float64, time.Duration
}

type list []any

// of makes an object of keys and values in turn.
func of(words ...any) object {
	var o object
	for i := 0; i < len(words); i += 2 {
		if words[i+1] != nil && !empty(words[i+1]) {
			o = append(o, pair{words[i].(string), words[i+1]})
		}
	}
	return o
}

func empty(v any) bool {
	switch v := v.(type) {
	case object:
		return len(v) == 0
	case list:
		return len(v) == 0
	}
	return false
}

// unless is nil where a value is left out.
func unless(left bool, v any) any {
	if left {
		return nil
	}
	return v
}

// yaml writes documents, with a line between them.
func yaml(documents ...object) string {
	var texts []string
	for _, d := range documents {
		if len(d) > 0 {
			var b strings.Builder
			writeObject(&b, d, 0, false)
			texts = append(texts, b.String())
		}
	}
	return strings.Join(texts, "---\n")
}

func writeObject(b *strings.Builder, o object, depth int, inItem bool) {
	for i, p := range o {
		if i > 0 || !inItem {
			b.WriteString(strings.Repeat("  ", depth))
		}
		b.WriteString(scalar(p.key) + ":")
		writeValue(b, p.value, depth)
	}
}

func writeValue(b *strings.Builder, v any, depth int) {
	switch v := v.(type) {
	case object:
		if len(v) == 0 {
			b.WriteString(" {}\n")
			return
		}
		b.WriteString("\n")
		writeObject(b, v, depth+1, false)
	case list:
		if flat(v) {
			b.WriteString(" [")
			for i, item := range v {
				if i > 0 {
					b.WriteString(", ")
				}
				b.WriteString(scalar(item))
			}
			b.WriteString("]\n")
			return
		}
		b.WriteString("\n")
		for _, item := range v {
			b.WriteString(strings.Repeat("  ", depth) + "- ")
			writeObject(b, item.(object), depth+1, true)
		}
	default:
		b.WriteString(" " + scalar(v) + "\n")
	}
}

func flat(l list) bool {
	for _, item := range l {
		if _, is := item.(object); is {
			return false
		}
	}
	return true
}

// bare are the strings that YAML takes for themselves.
var bare = regexp.MustCompile(`^([A-Za-z_/][A-Za-z0-9_./-]*|([0-9]+(h|m|s|ms))+)$`)

// scalar writes a value that has no parts. Strings that YAML could take for something else are quoted.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		switch strings.ToLower(v) {
		case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
			return jsonText(v)
		}
		if bare.MatchString(v) {
			return v
		}
		return jsonText(v)
	case time.Duration:
		return policy.FormatDuration(v)
	}
	return fmt.Sprint(v)
}

func jsonText(v any) string {
	var b strings.Builder
	in := json.NewEncoder(&b)
	in.SetEscapeHTML(false)
	_ = in.Encode(v) // strings and numbers always have a form
	return strings.TrimSuffix(b.String(), "\n")
}

// writeJSON writes an object as JSON. Lists of scalars stand on one line.
func writeJSON(b *strings.Builder, v any, depth int) {
	indent := "\n" + strings.Repeat("  ", depth+1)
	switch v := v.(type) {
	case object:
		b.WriteString("{")
		for i, p := range v {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(indent + jsonText(p.key) + ": ")
			writeJSON(b, p.value, depth+1)
		}
		b.WriteString("\n" + strings.Repeat("  ", depth) + "}")
	case list:
		b.WriteString("[")
		for i, item := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writeJSON(b, item, depth)
		}
		b.WriteString("]")
	default:
		b.WriteString(jsonText(v))
	}
}

// seconds writes a time as the JSON of protocol buffers does: "1.5s".
func seconds(d time.Duration) string {
	text := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + "s"
}

// oneUnit writes a time in the largest unit that it is a whole number of, as Linkerd reads it: "90s".
func oneUnit(d time.Duration) string {
	switch {
	case d%time.Hour == 0 && d > 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0 && d > 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}

// units writes a time in whole hours, minutes, seconds and milliseconds, as Go, Istio and the Gateway
// API read it: "1m30s".
func units(d time.Duration) string {
	var b strings.Builder
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.size
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}
