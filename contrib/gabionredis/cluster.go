package gabionredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// A ClusterClient follows MOVED and ASK within one attempt, and in the same loop it also
// repeats what broke off, whatever it was. Each node has a guard that stops that.

// lost are the commands of a call that may have happened, with what they failed of. A nil
// one keeps nothing.
type lost struct {
	mu  sync.Mutex // a pipeline's parts go to several nodes at once
	err map[redis.Cmder]error
}

func (h *hook) inside(safe bool) *lost {
	if !h.cluster || safe {
		return nil
	}
	return &lost{err: map[redis.Cmder]error{}}
}

func (l *lost) find(cmds ...redis.Cmder) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cmd := range cmds {
		if err := l.err[cmd]; err != nil {
			return err
		}
	}
	return nil
}

// note keeps the commands that may have happened.
func (l *lost) note(err error, cmds ...redis.Cmder) {
	if err == nil || isReply(err) || classify.Error(err).Effect == policy.NoEffect || judge(err).NeverSent {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cmd := range cmds {
		l.err[cmd] = err
	}
}

// guard is the hook of a node.
type guard struct{}

// DialHook implements redis.Hook.
func (guard) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l, _ := ctx.Value(insideKey{}).(*lost)
		if l == nil {
			return next(ctx, cmd)
		}
		if err := l.find(cmd); err != nil {
			return err
		}
		err := next(ctx, cmd)
		l.note(err, cmd)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		l, _ := ctx.Value(insideKey{}).(*lost)
		if l == nil {
			return next(ctx, cmds)
		}
		if err := l.find(cmds...); err != nil {
			return err // and nothing is sent: some of it may have happened
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			l.note(cmd.Err(), cmd)
		}
		l.note(err, cmds...)
		return err
	}
}
