package gabion

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// EndpointOf returns the endpoint that the attempt which ctx belongs to was sent to. It is zero
// outside of an attempt, and where the policy has no endpoints.
func EndpointOf(ctx context.Context) policy.Endpoint {
	p, _ := ctx.Value(placeKey{}).(*placedContext)
	if p == nil {
		return policy.Endpoint{}
	}
	at := attemptOf(ctx)
	for at != nil && at.is(partial) {
		at = attemptOf(at.Context)
	}
	if at != &p.attemptContext { // an attempt of another dependency lies between
		return policy.Endpoint{}
	}
	return *p.at
}

// WithEndpoint sends the call to the endpoint of that name and to no other, as for an operation whose
// outcome there is not known, and which is repeated with the same key: see [Error.Endpoint]. If the endpoint is left out, and others
// work, the call ends with [policy.BreakerOpen]. A name that the policy does not have ends it before anything is sent. The
// empty name means any.
func WithEndpoint(name string) CallOption { return CallOption{set: setEndpoint, text: name} }

// placeKey finds the placedContext of an attempt.
type placeKey struct{}

// placedContext is the context of an attempt that goes to an endpoint.
type placedContext struct {
	keyedContext
	at *policy.Endpoint
}

// Value implements context.Context.
func (p *placedContext) Value(key any) any {
	switch key.(type) {
	case placeKey:
		return p
	case callKey:
		if p.key == "" {
			return nil
		}
	}
	return p.keyedContext.Value(key)
}

// place makes the context of an attempt that goes to an endpoint.
func place(r *runner, t *machine.Ticket) (*attemptContext, context.Context) {
	p := &placedContext{at: machine.EndpointOf(&r.call, t)}
	p.key = r.o.key
	return &p.attemptContext, p
}

// noEndpoint is the mistake of a call that names an endpoint which is not there.
func noEndpoint(d *Dependency, name string) error {
	return fmt.Errorf("WithEndpoint(%s): the policy of %s has no such endpoint", plainName(name), d.name)
}

// A Resolver returns the endpoints of a dependency as they are now.
type Resolver func(ctx context.Context) ([]policy.Endpoint, error)

// ResolveEndpoints asks resolve once for the endpoints of d, and puts them in the place of the policy's, also of those that
// a later [Dependency.Reload] brings. Endpoints that stay keep what is known of them. If resolve returns an
// error, none, or endpoints that can't be, or panics, those that are there stay: the error says why, and so does an event of
// [policy.KindEndpointsMoved].
func ResolveEndpoints(ctx context.Context, d *Dependency, resolve Resolver) error {
	list, err := resolved(ctx, resolve)
	if err == nil {
		machine.FollowEndpoints(d.state, d.now(), list)
	} else {
		machine.NoteKept(d.state, d.now())
		err = fmt.Errorf("%s: the endpoints stay as they are: %w", d.name, err)
	}
	d.deliver(nil)
	return err
}

// FollowEndpoints calls [ResolveEndpoints] now, and again each time that every has passed, until ctx ends. It
// gives each time at most every, and writes its failures to the logger of [WithLogger]. Every below a second means a second.
func FollowEndpoints(ctx context.Context, d *Dependency, every time.Duration, resolve Resolver) {
	every = max(every, time.Second)
	for {
		within, cancel := context.WithTimeout(ctx, every)
		err := ResolveEndpoints(within, d, resolve)
		cancel()
		if err != nil && ctx.Err() == nil {
			loggerOf(d).WarnContext(ctx, "gabion: endpoints could not be resolved", "dependency", d.name, "error", err)
		}
		timer := d.timers.start(every)
		select {
		case <-timer.C:
			d.timers.stop(timer)
		case <-ctx.Done():
			d.timers.stop(timer)
			return
		}
	}
}

// resolved calls a resolver, whatever it does.
func resolved(ctx context.Context, resolve Resolver) (list []policy.Endpoint, err error) {
	defer func() {
		if v := recover(); v != nil {
			list, err = nil, fmt.Errorf("the resolver panicked: %v", v)
		}
	}()
	if resolve == nil {
		return nil, errors.New("the resolver is nil")
	}
	if list, err = resolve(ctx); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("it has no endpoint")
	}
	if err := (policy.Policy{Endpoints: policy.Endpoints{List: list}}).Validate(); err != nil {
		return nil, err
	}
	return slices.Clone(list), nil
}

// Addresses returns a resolver of the addresses of a URL's host, such as http://payments.internal:8080, as many as
// 64. Each is an endpoint whose URL has the address in the host's place, in the order of the addresses. For https the
// transport below has to know whose certificate it expects: see docs/endpoints.md. A nil r means net.DefaultResolver.
func Addresses(r *net.Resolver, address string) Resolver {
	if r == nil {
		r = net.DefaultResolver
	}
	return func(ctx context.Context) ([]policy.Endpoint, error) {
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" {
			return nil, errors.New("the address is no URL with a host") // which may have a password, and errors go to logs
		}
		found, err := r.LookupNetIP(ctx, "ip", u.Hostname())
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i] = found[i].Unmap()
		}
		slices.SortFunc(found, netip.Addr.Compare)
		found = slices.Compact(found)
		list := make([]policy.Endpoint, 0, len(found))
		for _, a := range found[:min(len(found), terms.MaxEndpoints)] {
			at := *u
			if at.Host = a.String(); u.Port() != "" {
				at.Host = net.JoinHostPort(at.Host, u.Port())
			} else if strings.Contains(at.Host, ":") {
				at.Host = "[" + at.Host + "]"
			}
			list = append(list, policy.Endpoint{Name: at.Host, URL: at.String()})
		}
		return list, nil
	}
}
