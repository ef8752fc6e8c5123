package backoff

import (
	"fmt"
	"strings"
)

// Kind is the shape of a backoff. The zero Kind is FullJitter. Any value that is not one of the
// constants counts as FullJitter too.
type Kind uint8

// The shapes. Full is the default because it spreads a fleet best; the last
// three exist for comparison.
const (
	FullJitter         Kind = iota // U(0, min(cap, base·2^n))
	EqualJitter                    // half of that fixed, half drawn
	DecorrelatedJitter             // min(cap, U(base, 3·previous)); it grows with the waits that were drawn, not with their number (Brooker 2015)
	Exponential                    // min(cap, base·2^n), no jitter
	Linear                         // min(cap, base·(n+1)), no jitter
	Constant                       // min(cap, base), no jitter
	numKinds
)

var kindText = [numKinds]string{
	FullJitter:         "full",
	EqualJitter:        "equal",
	DecorrelatedJitter: "decorrelated",
	Exponential:        "exponential",
	Linear:             "linear",
	Constant:           "constant",
}

// String returns the word that files use.
func (k Kind) String() string {
	if k < numKinds {
		return kindText[k]
	}
	return "kind(unknown)"
}

// MarshalText returns the word that files use, and an error for a value that is not one of the
// constants.
func (k Kind) MarshalText() ([]byte, error) {
	if k >= numKinds {
		return nil, fmt.Errorf("backoff: no shape has number %d", uint8(k))
	}
	return []byte(kindText[k]), nil
}

// UnmarshalText reads the word that files use. It takes no other spelling, and
// leaves the Kind as it was when it returns an error.
func (k *Kind) UnmarshalText(text []byte) error {
	for i, word := range kindText {
		if string(text) == word {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("backoff: unknown shape %q: want one of %s", text, strings.Join(kindText[:], ", "))
}
