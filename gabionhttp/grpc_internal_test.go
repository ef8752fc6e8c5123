package gabionhttp

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"testing"

	"github.com/gabion-go/gabion/internal/grpccode"
)

// naiveFrames reads a whole body at once: the payload of the last frames, and whether a
// message began.
func naiveFrames(flag byte, b []byte) (ends [][]byte, message bool) {
	for len(b) >= 5 {
		size := uint64(binary.BigEndian.Uint32(b[1:5]))
		last := b[0]&flag != 0
		message = message || !last
		if uint64(len(b)-5) < size {
			break
		}
		if last && size <= longestEnd && (b[0]&packed == 0 || size == 0) {
			ends = append(ends, b[5:5+size])
		}
		b = b[5+size:]
	}
	return ends, message
}

// However a body is cut into pieces, its frames are found as in the whole, and nothing in
// them panics or is kept without bound.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02hi\x80\x00\x00\x00\x0egrpc-status:14"), uint8(3), true)
	f.Add([]byte("\x02\x00\x00\x00\x21{\"error\":{\"code\":\"unavailable\"}}  "), uint8(1), false)
	f.Add([]byte("\x03\x00\x00\x00\x02xx"), uint8(7), false)
	f.Add([]byte("\x80\xff\xff\xff\xffgrpc"), uint8(2), true)
	f.Fuzz(func(t *testing.T, b []byte, step uint8, web bool) {
		p := connectStream
		if web {
			p = grpcWeb
		}
		var got [][]byte
		r := &rpcEnd{protocol: p}
		s := frames{flag: p.flag(), packing: "gzip"}
		s.end = func(payload []byte) {
			got = append(got, bytes.Clone(payload))
			r.readFrame(payload)
			if r.code > grpccode.Unauthenticated {
				t.Errorf("code %d", r.code)
			}
		}
		for rest := b; len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			s.see(rest[:n])
			rest = rest[n:]
			if len(s.kept) > longestEnd {
				t.Fatalf("%d bytes are kept", len(s.kept))
			}
		}
		want, message := naiveFrames(p.flag(), b)
		if message != s.message {
			t.Errorf("a message began: %v, want %v", s.message, message)
		}
		for _, w := range want {
			i := 0
			for i < len(got) && !bytes.Equal(got[i], w) {
				i++
			}
			if i == len(got) {
				t.Errorf("the frame %q was not told", w)
				continue
			}
			got = got[i+1:]
		}
		r.ended(&http.Response{})
		if !r.known {
			t.Error("the end is not known at the end")
		}
	})
}
