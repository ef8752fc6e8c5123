package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
)

// counter is what Letters may have beside: a [deadletter.Store] does.
type counter interface {
	Count(ctx context.Context, q deadletter.Query) ([]deadletter.Tally, error)
}

// buried reports whether the letter of a repeated delivery waits already, and what becomes of the
// delivery then: the process that put the letter away may have ended before it told the broker, or
// the broker may not have understood it.
func (h *handling) buried() (d inbox.Disposition, waits bool) {
	letters, counts := h.c.options.Letters.(counter)
	if !counts || h.again || !h.m.repeated() || !h.c.counts() {
		return d, false
	}
	q := deadletter.Query{
		Group: h.c.options.Group, IDs: []deadletter.ID{h.c.letter(h.m)},
		States: []deadletter.State{deadletter.Waiting, deadletter.Taken},
	}
	var found []deadletter.Tally
	err := h.bounded(func(ctx context.Context) (err error) {
		found, err = letters.Count(ctx, q)
		return err
	})
	if h.caller.Err() == nil {
		h.c.counted(err)
	}
	if err != nil { // it is handled as if there were none: messages go on without the store of letters
		h.c.logger().LogAttrs(h.caller, slog.LevelWarn, "the store of dead letters failed", slog.String("group", q.Group), slog.Any("error", err))
	}
	if err != nil || len(found) == 0 {
		return d, false
	}
	return inbox.Disposition{Verb: inbox.DeadLetter, Cause: inbox.Cause(found[0].Reason)}, true
}

// countAgain is how long letters that could not be counted are not asked again.
const countAgain = 10 * time.Second

// counts reports whether letters are asked. After a failure one message in each countAgain does,
// so that the others do not wait for a store that gives no answer.
func (c *Consumer) counts() bool {
	until, now := c.uncounted.Load(), int64(time.Since(c.made))
	return until == 0 || now >= until && c.uncounted.CompareAndSwap(until, now+int64(countAgain+c.options.LetterTimeout))
}

// counted notes whether letters could be counted.
func (c *Consumer) counted(err error) {
	if err == nil {
		c.uncounted.Store(0)
		return
	}
	c.uncounted.Store(int64(time.Since(c.made) + countAgain))
}

// putAway puts a letter away, and where the store takes none so large what is left of it without
// payload and headers: else its message would come again for ever.
func putAway(ctx context.Context, letters Letters, l deadletter.Letter) error {
	err := letters.Put(ctx, l)
	if errors.Is(err, deadletter.ErrTooLarge) {
		err = letters.Put(ctx, l.Stripped(err))
	}
	return err
}
