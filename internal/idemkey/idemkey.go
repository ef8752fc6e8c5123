// Package idemkey reads and makes idempotency keys. The front door and package
// idempotency are the two ends of the wire, and both read a key by these rules.
package idemkey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// Max is the most bytes a key may have.
const Max = 255

// Parse reads a key: a quoted string (RFC 8941, section 3.3.3), as the IETF draft asks
// for, or the bare characters, as most clients send. Both forms of the same characters
// are the same key. The parameters of a quoted key are read and ignored. It reports false
// for anything but 1 to 255 visible ASCII characters.
func Parse(value string) (key string, ok bool) {
	key, ok = value, true
	if strings.Contains(value, `"`) {
		key, ok = unquote(value)
	}
	if !ok || key == "" || len(key) > Max || !visible(key) {
		return "", false
	}
	return key, true
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

// New makes a key: a UUID of version 7 (RFC 9562). Its first 48 bits are the time in
// milliseconds and 74 of the others are random.
func New(now time.Time) string {
	var id [16]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	ms := uint64(now.UnixMilli())
	binary.BigEndian.PutUint16(id[0:], uint16(ms>>32))
	binary.BigEndian.PutUint32(id[2:], uint32(ms))
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// MadeAt returns the time that a UUID of version 7 carries.
func MadeAt(key string) (time.Time, bool) {
	if len(key) != 36 || key[8] != '-' || key[13] != '-' || key[14] != '7' || key[18] != '-' || key[23] != '-' {
		return time.Time{}, false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(key, "-", ""))
	if err != nil || len(b) != 16 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b) >> 16)), true
}

// ID returns the name under which the record of a key is stored: a hash of scope and key.
func ID(scope, key string) [32]byte {
	// The scope's length goes first: scope "a" with key "bc" is not "ab" with "c".
	var room [512]byte
	b := binary.AppendUvarint(room[:0], uint64(len(scope)))
	b = append(b, scope...)
	b = append(b, 0)
	return sha256.Sum256(append(b, key...))
}

// Derive makes the key of one step of the work whose record has that ID. It is 64 hex
// digits, the least that providers accept, and an HMAC, so that neither scope nor key
// travels on.
func Derive(id [32]byte, step string) string {
	mac := hmac.New(sha256.New, id[:])
	mac.Write([]byte("gabion derived key 1\x00" + step))
	return hex.EncodeToString(mac.Sum(nil))
}
