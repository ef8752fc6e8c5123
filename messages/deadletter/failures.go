package deadletter

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of what is kept of a message's failures. The first says what began it, the newest
// how it stands; a message that fails a thousand times says the same in between.
const (
	MaxFailures = 32      // of one message
	MaxMessage  = 1 << 10 // bytes of a failure's text, and of a note
	maxName     = 256     // bytes of a class, a reason, and of who did something
)

// AddFailures returns failures with others added: in the order of their times, the same one
// once, and of more than MaxFailures the first and the newest. It changes neither argument.
func AddFailures(have []Failure, more ...Failure) []Failure {
	all := slices.Clone(have)
	for _, f := range more {
		f = f.bounded()
		if !slices.ContainsFunc(all, f.same) {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b Failure) int { return a.At.Compare(b.At) })
	if over := len(all) - MaxFailures; over > 0 {
		all = slices.Delete(all, 1, 1+over)
	}
	return all
}

// same reports whether it is that failure, written once more.
func (f Failure) same(g Failure) bool {
	return f.At.Equal(g.At) && f.Took == g.Took && f.Attempt == g.Attempt && f.Class == g.Class && f.Reason == g.Reason && f.Message == g.Message
}

func (f Failure) bounded() Failure {
	f.At = moment(f.At)
	f.Class, f.Reason, f.Message = cut(f.Class, maxName), cut(f.Reason, maxName), cut(f.Message, MaxMessage)
	return f
}

// size is what a failure counts for in bytes.
func (f Failure) size() int64 { return int64(len(f.Class) + len(f.Reason) + len(f.Message) + 32) }

// cut returns valid UTF-8 of at most most bytes, with an ellipsis where something is missing.
func cut(text string, most int) string {
	const more = "…"
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= most {
		return text
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// Years that a number of nanoseconds can't say are mistakes.
var (
	earliest = time.Unix(0, -1<<63+1)
	latest   = time.Unix(0, 1<<63-1)
)

// moment returns a time as all stores keep it: in UTC, without a monotonic clock. What
// they can't keep becomes the zero time, and so does the first moment of 1970, which is how they keep that.
func moment(t time.Time) time.Time {
	if t.Before(earliest) || t.After(latest) || t.UnixNano() == 0 {
		return time.Time{}
	}
	return t.Round(0).UTC()
}
