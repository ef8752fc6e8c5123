package gabionredis

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// isAnswer reports whether an error of go-redis's is no failure: there is no such key, or a watched key
// was changed, after which the caller has to read again.
func isAnswer(err error) bool {
	return err == redis.Nil || err == redis.TxFailedErr //nolint:errorlint // what wraps it may hold failures, too
}

// isReply reports whether the server said it, so that it is not in doubt what became of the
// command.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// failure is what a pipeline or transaction failed of as a whole, or nil if its commands have
// their answers, some of which may be errors. Replies such as LOADING are a failure of the
// whole if every command has one, and also of a part if all may be repeated.
func failure(cmds []redis.Cmder, err error, safe bool) error {
	switch {
	case err == nil, isAnswer(err):
		return nil
	case !isReply(err):
		return err
	}
	if transaction(cmds) {
		return aborted(cmds, err)
	}
	var first error
	undone := true
	for _, cmd := range cmds {
		own := cmd.Err()
		o := policy.Outcome{}
		if own != nil && isReply(own) {
			o = classify.Error(own)
		}
		if o.Class.Transient() && first == nil {
			first = own
		}
		undone = undone && o.Class.Transient() && o.Undone
	}
	switch {
	case undone:
		return first
	case first != nil && safe:
		return partly{first}
	}
	return nil
}

// aborted is what a transaction failed of that did nothing: the server refused one of its
// commands, and EXEC then says so. What EXEC itself answers is another matter: Redis keeps
// what was done before a command fails.
func aborted(cmds []redis.Cmder, err error) error {
	if !redis.HasErrorPrefix(err, "EXECABORT") {
		return nil
	}
	for _, cmd := range cmds {
		if own := cmd.Err(); own != nil && own != err && isReply(own) && classify.Error(own).Class.Transient() { //nolint:errorlint // is it the very one?
			return own
		}
	}
	return nil
}

// partly is the failure of a pipeline of which a part was done.
type partly struct{ error }

// Unwrap returns the server's reply.
func (p partly) Unwrap() error { return p.error }

// Outcome implements what package classify asks for.
func (p partly) Outcome() policy.Outcome {
	o := classify.Error(p.error)
	o.Undone, o.NeverSent, o.Effect = false, false, policy.UnknownEffect
	return o
}

func transaction(cmds []redis.Cmder) bool {
	return len(cmds) > 0 && strings.EqualFold(cmds[0].Name(), "multi")
}

func all(cmds []redis.Cmder, is func(redis.Cmder) bool) bool {
	for _, cmd := range cmds {
		if !is(cmd) {
			return false
		}
	}
	return true
}
