package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"

	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// ErrCut is the error, at the end, of a recording that ends in the middle of a line, as
// that of a program that was killed, or that has a run which does. All that is whole was
// read before.
var ErrCut = recording.ErrCut

// Read returns the events of a recording, without the fields that mean nothing for their kind. The
// first invalid line ends it with an error that names the line, unless the next one says that events
// were lost there: a full disk may cut a line short. [ErrCut] marks a recording that was cut off.
func Read(r io.Reader) iter.Seq2[policy.Event, error] {
	return func(yield func(policy.Event, error) bool) {
		for e, err := range recording.Entries(r) {
			if !yield(e.Event, err) {
				return
			}
		}
	}
}

// PolicyHash returns a short name for what a policy means, "sha256:…": two policies that
// mean the same have the same, whatever was left out of them. Versions of gabion with
// other fields or defaults give other names.
func PolicyHash(p policy.Policy) string {
	p = p.Resolved().Clone()
	for _, list := range []*[]int{&p.HTTP.Transient, &p.HTTP.Permanent} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "" // a number that no policy can have, such as NaN
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
