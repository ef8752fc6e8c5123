package gabionredis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Option adjusts [Use].
type Option func(*hook)

// Idempotent declares that commands may be repeated where an answer was lost. Names are those
// of the server, in any case, such as "DEL" or "JSON.SET". Known to be so are commands that
// only read, and those that leave the same state and answer the same when they come twice:
//
//   - SET without NX, XX, GET or a comparison, SETEX, PSETEX, MSET, SETRANGE, HMSET, LSET;
//   - EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT without a condition, GETEX, TOUCH;
//   - EVAL_RO, EVALSHA_RO, FCALL_RO, SCRIPT LOAD and SCRIPT EXISTS, PING, ECHO.
//
// DEL, HSET, SADD, ZADD and others like them leave the same state, but count what they
// changed: the second says 0. Declare them if the program ignores the count.
func Idempotent(commands ...string) Option { return declare(commands, true) }

// NotIdempotent declares that commands are repeated only if they provably did nothing.
func NotIdempotent(commands ...string) Option { return declare(commands, false) }

func declare(commands []string, safe bool) Option {
	return func(h *hook) {
		for _, name := range commands {
			h.commands[strings.ToLower(name)] = safe
		}
	}
}

// Use makes client call through d. It refuses, with the reason, a client that repeats by
// itself or does not honour deadlines, and one that is not a *redis.Client,
// *redis.ClusterClient or *redis.Ring. It must be called before the client is used, and
// once: of two, the first one counts.
//
//	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
//	err := gabionredis.Use(client, cache)
//
// go-redis dials up to five times by itself before it says that it can't (DialerRetries), and
// waits for a connection of its pool for a second more than ReadTimeout (PoolTimeout). Both
// belong below the policy's attempt timeout.
func Use(client redis.UniversalClient, d *gabion.Dependency, opts ...Option) error {
	if d == nil {
		return errors.New("gabionredis: the dependency is nil")
	}
	h := &hook{d: d, commands: map[string]bool{}}
	for _, set := range opts {
		set(h)
	}
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return errNoClient
		}
		o := c.Options()
		if err := suits(o.MaxRetries, o.ContextTimeoutEnabled); err != nil {
			return err
		}
	case *redis.Ring:
		if c == nil {
			return errNoClient
		}
		o := c.Options()
		if err := suits(o.MaxRetries, o.ContextTimeoutEnabled); err != nil {
			return err
		}
	case *redis.ClusterClient:
		if c == nil {
			return errNoClient
		}
		o := c.Options()
		if err := suits(o.MaxRetries, o.ContextTimeoutEnabled); err != nil {
			return err
		}
		h.cluster = true
		c.OnNewNode(func(node *redis.Client) { node.AddHook(guard{}) })
	default:
		return fmt.Errorf("gabionredis: it is not known how a %T repeats commands", client)
	}
	client.AddHook(h)
	return nil
}

var errNoClient = errors.New("gabionredis: the client is nil")

func suits(retries int, deadlines bool) error {
	var all []error
	if retries > 0 {
		all = append(all, fmt.Errorf("gabionredis: the client repeats commands up to %d times by itself, also those that are not idempotent: set MaxRetries to -1", retries))
	}
	if !deadlines {
		all = append(all, errors.New("gabionredis: the client does not honour deadlines, so that the policy's timeouts would not end a command: set ContextTimeoutEnabled"))
	}
	return errors.Join(all...)
}

// hook makes calls of commands.
type hook struct {
	d        *gabion.Dependency
	commands map[string]bool // whether they may be repeated, as the caller says
	cluster  bool
}

// insideKey marks what is sent within an attempt, such as the greeting of a connection.
type insideKey struct{}

// DialHook implements redis.Hook.
func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if passes(cmd) || ctx.Value(insideKey{}) != nil {
			return next(ctx, cmd)
		}
		safe := h.repeatable(cmd)
		inside := h.inside(safe)
		var answer error
		err := h.run(ctx, cmd.Name(), safe, func(ctx context.Context) error {
			answer = nil
			err := next(context.WithValue(ctx, insideKey{}, inside), cmd)
			if isAnswer(err) {
				answer, err = err, nil
			}
			return err
		})
		if err == nil {
			return answer
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if ctx.Value(insideKey{}) != nil || all(cmds, passes) {
			return next(ctx, cmds)
		}
		safe, name := all(cmds, h.repeatable), "pipeline"
		if transaction(cmds) {
			name = "transaction"
		}
		inside := h.inside(safe)
		var answer error
		sent := false
		err := h.run(ctx, name, safe, func(ctx context.Context) error {
			if sent { // MULTI and EXEC would keep what the attempt before failed of
				for _, cmd := range cmds {
					cmd.SetErr(nil)
				}
			}
			sent = true
			answer = next(context.WithValue(ctx, insideKey{}, inside), cmds)
			return failure(cmds, answer, safe)
		})
		if err == nil {
			return answer
		}
		for _, cmd := range cmds {
			if own := cmd.Err(); !sent || own != nil && !isReply(own) {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// run makes a call. It never hedges, since a command has room for one answer.
func (h *hook) run(ctx context.Context, operation string, safe bool, work func(context.Context) error) error {
	opts := [3]gabion.CallOption{byError, gabion.WithOperation(operation)}
	n := 2
	if safe {
		opts[n] = gabion.WithIdempotent()
		n++
	}
	return h.d.Run(ctx, work, opts[:n]...)
}

var byError = gabion.WithClassify(func(_ any, err error) policy.Outcome { return judge(err) })

// judge knows the errors that go-redis makes itself. Package classify knows the server's.
func judge(err error) (o policy.Outcome) {
	switch {
	case err == nil:
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		o = policy.Outcome{Class: policy.ClassRejected, NeverSent: true, Exhausted: true}
	case errors.Is(err, redis.ErrClosed):
		o = policy.Unsent(policy.ClassClient)
	}
	return o
}
