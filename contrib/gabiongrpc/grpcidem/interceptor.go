package grpcidem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/gabion-go/gabion/idempotency"
)

// Metadata of the calls. The names are those of the HTTP headers.
const (
	MetadataKey      = "idempotency-key"     // the call's key
	MetadataReplayed = "idempotent-replayed" // in the header: "true" on a stored answer
	MetadataStatus   = "idempotency-status"  // in the header: "not-recorded" when a retry may not find this answer
)

// A Scope says on whose behalf a call is made: a tenant, an account, a principal.
// Keys of different scopes never meet. It is asked after authentication. An empty
// scope refuses the call.
type Scope func(context.Context, *grpc.UnaryServerInfo) string

// Global is the Scope of a service whose callers all may see each other's answers.
func Global(context.Context, *grpc.UnaryServerInfo) string { return "*" }

// Options is how the interceptor works. The zero value is sound: all unary methods
// need a key, and the guarantee is Hold.
type Options struct {
	// Runner says how keys are claimed and held, and how long answers are kept.
	Runner idempotency.RunnerConfig

	// Methods are the full names (/package.Service/Method) of those that take a key;
	// others pass through. Nil means all.
	Methods []string

	// Optional lets calls without a key pass through, unprotected.
	Optional bool

	// Secret keys the fingerprints: see idempotency.Config.
	Secret []byte

	// Fingerprint returns what tells calls of one method apart, for requests that are
	// not protocol buffers, or whose honest retries differ. Nil means [Canonical].
	Fingerprint func(ctx context.Context, request any) ([]byte, error)

	// NotKept are codes of answers that are not kept: the next call with the key runs
	// anew, with whatever request. List only what your methods answer before they have
	// any effect, such as NOT_FOUND, PERMISSION_DENIED and INVALID_ARGUMENT; for single
	// answers there is idempotency.DoNotKeep. OK is always kept.
	NotKept []codes.Code

	// Types finds the types of stored responses by name. Nil means those that the program's generated
	// code registered. A response of an unknown type is replayed with the bytes that it had, as a
	// message that interceptors outside can't look into; a client that speaks another codec than
	// protocol buffers' gets the error that it was not kept.
	Types Types

	// MaxResponse is the largest answer that is kept, in bytes. A longer one is sent
	// and not kept: retries get that as an error, and nothing runs again. Zero means 1 MiB. The
	// store may have a lower bound.
	MaxResponse int
}

// Types finds message types by name, as a protoregistry.Types does. It must be safe for
// concurrent use.
type Types interface {
	FindMessageByName(protoreflect.FullName) (protoreflect.MessageType, error)
}

// An interceptor is what UnaryServerInterceptor returns a method of.
type interceptor struct {
	scope   Scope
	options Options
	runner  *idempotency.Runner
}

// UnaryServerInterceptor returns an interceptor with records in the store. The scope
// is mandatory: without it one caller's key would get another's answer; [Global]
// says that this is meant. It returns everything that is wrong with its arguments.
//
// A method goes on when its client goes or its deadline passes: its context ends when
// the lease is lost or MaxExecution has passed. Under Tx it may run more than once,
// and nothing is sent before COMMIT. A panic goes on up, to a recovering interceptor
// outside.
func UnaryServerInterceptor(scope Scope, store idempotency.Store, o Options) (grpc.UnaryServerInterceptor, error) {
	var all []error
	if scope == nil {
		all = append(all, errors.New("scope is missing: say whose keys they are, or Global"))
	}
	if o.MaxResponse < 0 {
		all = append(all, errors.New("max response: a bound is negative"))
	}
	if slices.Contains(o.NotKept, codes.OK) {
		all = append(all, errors.New("not kept: OK is always kept"))
	}
	runner, err := idempotency.NewRunner(store, o.Runner)
	if err = errors.Join(append(all, err)...); err != nil {
		return nil, fmt.Errorf("grpcidem: %w", err)
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = 1 << 20
	}
	if most := store.Caps().MaxValue; most > 0 {
		o.MaxResponse = min(o.MaxResponse, most)
	}
	if o.Types == nil {
		o.Types = protoregistry.GlobalTypes
	}
	if o.Fingerprint == nil {
		o.Fingerprint = canonicalRequest
	}
	return (&interceptor{scope: scope, options: o, runner: runner}).unary, nil
}

func canonicalRequest(_ context.Context, request any) ([]byte, error) {
	m, ok := request.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("grpcidem: %T is no protocol buffer: set Options.Fingerprint", request)
	}
	return Canonical(m), nil
}

func (i *interceptor) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if i.options.Methods != nil && !slices.Contains(i.options.Methods, info.FullMethod) {
		return handler(ctx, request)
	}
	key, found, err := keyOf(ctx)
	switch {
	case err != nil:
		return nil, refuse(Malformed)
	case !found && i.options.Optional:
		return handler(ctx, request)
	case !found:
		return nil, refuse(Missing)
	}
	scope := i.scope(ctx, info)
	if scope == "" {
		return nil, refuse(NoScope)
	}
	form, err := i.options.Fingerprint(ctx, request)
	if err != nil {
		return nil, refuse(Unreadable)
	}
	sum := idempotency.Fingerprint(i.options.Secret, []byte("grpc"), []byte(info.FullMethod), form)
	c := &call{interceptor: i, request: request, handler: handler}
	// gRPC's keys are apart from those of HTTP in the same store.
	a, err := i.runner.Do(ctx, idempotency.IDOf("grpc\x00"+scope, key), sum, c.run)
	if a.Decision == idempotency.DecisionRun {
		return c.answer(ctx, a, err)
	}
	return i.notRun(ctx, a, err)
}

var errTwoKeys = errors.New("grpcidem: more than one key")

func keyOf(ctx context.Context) (key string, found bool, err error) {
	switch values := metadata.ValueFromIncomingContext(ctx, MetadataKey); len(values) {
	case 0:
		return "", false, nil
	case 1:
		key, err = idempotency.ParseKey(values[0])
		return key, true, err
	}
	return "", true, errTwoKeys
}

// A call is one that runs, under Tx perhaps more than once.
type call struct {
	*interceptor
	request  any
	handler  grpc.UnaryHandler
	response any
	err      error
}

func (c *call) run(ctx context.Context) (idempotency.Result, idempotency.Ending) {
	c.response, c.err = c.handler(ctx, c.request)
	res, how, err := record(c.response, c.err)
	if slices.Contains(c.options.NotKept, codes.Code(res.Status)) && ctx.Err() == nil { // else it may be the cancellation's doing
		idempotency.DoNotKeep(ctx)
	}
	if err != nil {
		// The work is done. That its answer can't be kept must not run it again.
		res = idempotency.Result{Omitted: true}
	}
	if len(res.Body) > c.options.MaxResponse {
		res.Body, res.Omitted = nil, true
	}
	return res, how
}

// answer returns what the method returned, unless others were told that its outcome
// is unknown and may have settled it otherwise.
func (c *call) answer(ctx context.Context, a idempotency.Answer, err error) (any, error) {
	hold := a.Record.Guarantee == idempotency.GuaranteeHold
	if a.Record.State == idempotency.StateUnknown || hold && errors.Is(err, idempotency.ErrLeaseLost) {
		return nil, refuse(OutcomeUnknown)
	}
	if err != nil {
		_ = grpc.SetHeader(ctx, metadata.Pairs(MetadataStatus, "not-recorded"))
	}
	return c.response, c.err
}

// notRun answers a call whose method did not run, or was rolled back.
func (i *interceptor) notRun(ctx context.Context, a idempotency.Answer, err error) (any, error) {
	switch {
	case errors.Is(err, idempotency.ErrUnknown):
		return nil, refuse(CommitUnknown, retryIn(time.Second))
	case errors.Is(err, idempotency.ErrUnreadable):
		return nil, refuse(RecordUnreadable)
	case err != nil:
		return nil, refuse(StoreUnavailable, retryIn(time.Second))
	case a.Decision == idempotency.DecisionReplay:
		return i.replay(ctx, a.Record.Result)
	case a.Decision == idempotency.DecisionMismatch:
		return nil, refuse(Mismatch)
	case a.Decision == idempotency.DecisionInProgress:
		return nil, refuse(InProgress, retryIn(min(max(a.Left, time.Second), 5*time.Second)))
	}
	return nil, refuse(OutcomeUnknown)
}
