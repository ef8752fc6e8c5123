package idempotency

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"hash"
	"strings"
)

const headerDigest = "Content-Digest" // RFC 9530

// A digest is what a Content-Digest header says of a body, by the algorithms that
// are known here.
type digest struct {
	sha256, sha512 []byte // nil when the header does not say
}

func (d digest) known() bool { return d.sha256 != nil || d.sha512 != nil }

// print is what a fingerprint has in place of the body: one digest, so that a retry
// may add another.
func (d digest) print() []byte {
	if d.sha256 != nil {
		return append([]byte("sha-256:"), d.sha256...)
	}
	return append([]byte("sha-512:"), d.sha512...)
}

var errDigestHeader = errors.New("idempotency: malformed Content-Digest: it is a list of algorithm=:base64:") //nolint:revive,staticcheck // the colons are of the format

// parseDigest reads the lines of a Content-Digest header, a dictionary of byte
// sequences (RFC 9530, section 2; RFC 8941, section 3.2). Of an algorithm that is
// there twice the last counts; unknown ones are left out. Parameters have no meaning
// here and are refused. No lines are no digest.
func parseDigest(lines []string) (d digest, err error) {
	text := strings.Trim(strings.Join(lines, ","), " \t")
	if text == "" {
		return d, nil
	}
	for member := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.Trim(member, " \t"), "=")
		sum, ok := byteSequence(value)
		if !ok || !dictionaryKey(name) || !d.set(name, sum) {
			return digest{}, errDigestHeader
		}
	}
	return d, nil
}

// set notes a digest and reports whether it has the length that the algorithm's have.
func (d *digest) set(name string, sum []byte) bool {
	switch name {
	case "sha-256":
		d.sha256 = sum
		return len(sum) == sha256.Size
	case "sha-512":
		d.sha512 = sum
		return len(sum) == sha512.Size
	}
	return true
}

// dictionaryKey reports whether s is a key of RFC 8941, section 3.1.2.
func dictionaryKey(s string) bool {
	const first = "*abcdefghijklmnopqrstuvwxyz"
	return s != "" && strings.Contains(first, s[:1]) && strings.Trim(s, first+"0123456789_-.") == ""
}

// byteSequence reads a byte sequence (RFC 8941, section 3.3.5). Padding may be left
// out, as parsers are told to allow (section 4.2.7).
func byteSequence(s string) ([]byte, bool) {
	if len(s) < 2 || s[0] != ':' || s[len(s)-1] != ':' || strings.ContainsAny(s, "\r\n") { // which base64 skips
		return nil, false
	}
	s = s[1 : len(s)-1]
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(s, "=") {
		encoding = base64.StdEncoding
	}
	b, err := encoding.DecodeString(s)
	return b, err == nil
}

// A verifier hashes a body as it comes.
type verifier []expected

type expected struct {
	hash.Hash
	sum []byte
}

func (d digest) verifier() (v verifier) {
	if d.sha256 != nil {
		v = append(v, expected{sha256.New(), d.sha256})
	}
	if d.sha512 != nil {
		v = append(v, expected{sha512.New(), d.sha512})
	}
	return v
}

// Write implements [io.Writer].
func (v verifier) Write(p []byte) (int, error) {
	for _, e := range v {
		e.Write(p)
	}
	return len(p), nil
}

// ok reports whether what was written is what every digest says.
func (v verifier) ok() bool {
	for _, e := range v {
		if !bytes.Equal(e.Sum(nil), e.sum) {
			return false
		}
	}
	return true
}

// of reports whether the digest is that of body.
func (d digest) of(body []byte) bool {
	v := d.verifier()
	_, _ = v.Write(body)
	return v.ok()
}
