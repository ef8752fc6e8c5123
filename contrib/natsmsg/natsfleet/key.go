package natsfleet

import (
	"encoding/hex"
	"strings"
)

// A key is a subject: its parts between slashes are tokens. Bytes that a token can't have, or that mean something
// in one, are an equals sign and two hex digits. A part without bytes is an equals sign alone.
func subjectOf(key string) string {
	var b strings.Builder
	for n, part := range strings.Split(key, "/") {
		if n > 0 {
			b.WriteByte('.')
		}
		if part == "" {
			b.WriteByte('=')
		}
		for i := range len(part) {
			if c := part[i]; plain(c) {
				b.WriteByte(c)
			} else {
				b.WriteByte('=')
				b.WriteString(hex.EncodeToString([]byte{c}))
			}
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// keyOf is the key of a subject, and false if no key has that subject.
func keyOf(subject string) (string, bool) {
	var b strings.Builder
	for n, token := range strings.Split(subject, ".") {
		if n > 0 {
			b.WriteByte('/')
		}
		for token != "=" && token != "" {
			text, rest, odd := strings.Cut(token, "=")
			b.WriteString(text)
			if token = ""; odd {
				if len(rest) < 2 {
					return "", false
				}
				c, err := hex.DecodeString(rest[:2])
				if err != nil {
					return "", false
				}
				b.Write(c)
				token = rest[2:]
			}
		}
	}
	key := b.String()
	return key, subjectOf(key) == subject
}

// filterOf is a filter that all subjects match whose keys begin with a prefix, and perhaps others.
func filterOf(prefix string) string {
	whole := strings.LastIndexByte(prefix, '/')
	if whole < 0 {
		return ">"
	}
	return subjectOf(prefix[:whole]) + ".>"
}
