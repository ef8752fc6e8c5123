package idempotency

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// fingerprintVersion changes when anything below does: a record of an older
// version then reads as a mismatch, which is safe.
const (
	fingerprintVersion = 1
	digestVersion      = 0x80 | fingerprintVersion // of a body's digest: never equal to that of a body
)

// A fingerprinter tells requests apart. It uses an HMAC because a plain hash of a
// body with few possible values can be guessed from a leaked store.
type fingerprinter struct {
	secret    []byte
	headers   []string // that belong to the request's meaning, in canonical form
	canonical func(r *http.Request, body []byte) []byte
	pool      sync.Pool // of *keyedHash: setting the key is half the cost
}

type keyedHash struct {
	hash.Hash
	room []byte // what is hashed at once, and the sum
}

func (f *fingerprinter) get() *keyedHash {
	if h, ok := f.pool.Get().(*keyedHash); ok {
		return h
	}
	return &keyedHash{Hash: hmac.New(sha256.New, f.secret), room: make([]byte, 0, 256)}
}

// of returns the fingerprint of a request: method, path, query, media type, the
// chosen headers and body. Host, credentials, cookies and tracing are left out, as
// they differ between honest retries.
func (f *fingerprinter) of(r *http.Request, body []byte) [32]byte {
	if f.canonical != nil {
		body = f.canonical(r, body)
	}
	return f.sum(r, fingerprintVersion, body)
}

// ofDigest returns the fingerprint of a request whose body is not here yet: the same,
// with its digest in the place of the body.
func (f *fingerprinter) ofDigest(r *http.Request, d digest) [32]byte {
	return f.sum(r, digestVersion, d.print())
}

func (f *fingerprinter) sum(r *http.Request, version byte, body []byte) (sum [32]byte) {
	h := f.get()
	b := append(h.room[:0], version)
	b = appendBytes(b, r.Method)
	b = appendBytes(b, pathOf(r))
	b = appendBytes(b, canonicalQuery(r.URL.RawQuery))
	b = appendBytes(b, mediaType(r.Header))
	for _, name := range f.headers {
		values := r.Header[name]
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, v := range values {
			b = appendBytes(b, v)
		}
	}
	h.Reset()
	h.Write(b)
	h.Write(body) // the last: needs no length
	h.room = h.Sum(b[:0])
	copy(sum[:], h.room)
	f.pool.Put(h)
	return sum
}

// pathOf returns the path, and the one that the client sent if that is another: what
// was stripped of it on the way here tells routes apart that share a store.
func pathOf(r *http.Request) string {
	path := r.URL.EscapedPath()
	if sent := sentPath(r.RequestURI); sent != "" && sent != path {
		return path + "\x00" + sent
	}
	return path
}

// sentPath returns the path of a request's target, which may be a whole URL (RFC 9112,
// section 3.2.2).
func sentPath(target string) string {
	target, _, _ = strings.Cut(target, "?")
	if strings.HasPrefix(target, "/") {
		return target
	}
	_, rest, _ := strings.Cut(target, "://")
	_, path, found := strings.Cut(rest, "/")
	if !found {
		return ""
	}
	return "/" + path
}

// Fingerprint returns a fingerprint of work that does not come by HTTP: of its parts
// in their order. The secret is that of [Config].Secret.
func Fingerprint(secret []byte, parts ...[]byte) (sum [32]byte) {
	h, _ := hashes.Get().(*sharedHash)
	if h == nil || !bytes.Equal(h.secret, secret) {
		h = &sharedHash{keyedHash{Hash: hmac.New(sha256.New, secret), room: make([]byte, 0, 256)}, bytes.Clone(secret)}
	}
	for _, p := range parts {
		h.Write(binary.AppendUvarint(h.room[:0], uint64(len(p))))
		h.Write(p)
	}
	copy(sum[:], h.Sum(h.room[:0]))
	h.Reset()
	hashes.Put(h)
	return sum
}

// hashes are those of Fingerprint. Most programs have one secret.
var hashes sync.Pool // of *sharedHash

// A sharedHash is one that any caller with the same secret may use.
type sharedHash struct {
	keyedHash
	secret []byte
}

// canonicalQuery sorts by name; values of one name keep their order. What can't be
// parsed is taken as it is.
func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return raw
	}
	return values.Encode()
}

// mediaType leaves parameters out: a multipart boundary is new in every retry.
func mediaType(h http.Header) string {
	if len(h["Content-Type"]) == 0 {
		return ""
	}
	t, _, _ := strings.Cut(h["Content-Type"][0], ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// CanonicalMultipart is for [Config].Canonical. Multipart bodies that differ only
// in their boundary are the same request.
func CanonicalMultipart(r *http.Request, body []byte) []byte {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		return body
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	var out []byte
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return out
		}
		if err != nil {
			return body
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return body
		}
		out = appendHeader(out, http.Header(part.Header))
		out = appendBytes(out, content)
	}
}

func appendHeader(b []byte, h http.Header) []byte {
	var lines []string
	for name, values := range h {
		for _, v := range values {
			lines = append(lines, name+": "+v)
		}
	}
	slices.Sort(lines)
	b = binary.AppendUvarint(b, uint64(len(lines)))
	for _, line := range lines {
		b = appendBytes(b, line)
	}
	return b
}
