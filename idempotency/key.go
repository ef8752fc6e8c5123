package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// MaxKey is the most bytes a key may have.
const MaxKey = 255

var errKey = errors.New("idempotency: malformed key: it is 1 to 255 visible ASCII characters, bare or as one quoted string")

// ParseKey reads the value of an Idempotency-Key header: the string of RFC 8941
// that the IETF draft asks for ("abc", in quotes), or the bare characters that
// most clients send. Both forms of the same characters are the same key. Parameters of a
// quoted one ("abc";v=1) are read and have no meaning. The error does not repeat the value.
func ParseKey(value string) (string, error) {
	key, ok := value, true
	if strings.Contains(value, `"`) {
		key, ok = unquote(value)
	}
	if !ok || len(key) == 0 || len(key) > MaxKey || !visible(key) {
		return "", errKey
	}
	return key, nil
}

// unquote reads an sf-string and the parameters after it, which say nothing of the key
// (RFC 8941, sections 3.3.3 and 3.1.2).
func unquote(s string) (string, bool) {
	text, rest, ok := cutString(s)
	for ok && rest != "" {
		rest, ok = cutParameter(rest)
	}
	return text, ok
}

// cutString cuts an sf-string off the front of s.
func cutString(s string) (text, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	if end := strings.IndexAny(s[1:], `"\`) + 1; end > 0 && s[end] == '"' {
		return s[1:end], s[end+1:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

// cutParameter cuts a parameter off the front of s. Of its value no more is read than
// where it ends.
func cutParameter(s string) (rest string, ok bool) {
	s, ok = strings.CutPrefix(s, ";")
	s = strings.TrimLeft(s, " ")
	name := len(s) - len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz0123456789_-.*"))
	if !ok || name == 0 || s[0] != '*' && (s[0] < 'a' || s[0] > 'z') {
		return "", false
	}
	s, ok = strings.CutPrefix(s[name:], "=")
	if !ok {
		return s, true
	}
	if strings.HasPrefix(s, `"`) {
		_, rest, ok = cutString(s)
		return rest, ok
	}
	end := strings.IndexByte(s, ';')
	if end < 0 {
		end = len(s)
	}
	return s[end:], end > 0 && visible(s[:end]) && !strings.ContainsAny(s[:end], `",\`)
}

func visible(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// An ID names a record: a hash of scope and key, so that stores hold neither, every
// name has the same length, and no scope can reach into another.
type ID [32]byte

// IDOf returns the ID of a key within a scope.
func IDOf(scope, key string) ID {
	// The scope's length goes first: scope "a" with key "bc" is not "ab" with "c".
	var room [512]byte
	b := binary.AppendUvarint(room[:0], uint64(len(scope)))
	b = append(b, scope...)
	b = append(b, 0)
	return sha256.Sum256(append(b, key...))
}

// String returns the first eight hex digits: enough to follow a key through logs,
// too little to find it.
func (id ID) String() string { return hex.EncodeToString(id[:4]) }

// derive makes the downstream key of a step: an HMAC, so that nothing of scope and
// key travels on, in 64 hex digits, the least that providers accept. It depends on
// nothing that is ever rotated.
func (id ID) derive(step string) string {
	mac := hmac.New(sha256.New, id[:])
	mac.Write([]byte("gabion derived key 1\x00" + step))
	return hex.EncodeToString(mac.Sum(nil))
}

// madeAt returns the time that a key made as a UUID of version 7 carries.
func madeAt(key string) (time.Time, bool) {
	if len(key) != 36 || key[8] != '-' || key[13] != '-' || key[14] != '7' || key[18] != '-' || key[23] != '-' {
		return time.Time{}, false
	}
	bare := strings.ReplaceAll(key, "-", "")
	b, err := hex.DecodeString(bare)
	if err != nil || len(b) != 16 {
		return time.Time{}, false
	}
	ms := int64(binary.BigEndian.Uint64(b) >> 16)
	return time.UnixMilli(ms), true
}
