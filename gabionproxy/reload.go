package gabionproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
)

// apply puts a new version of the file into force. It runs on the watcher's goroutine alone, so that the watcher always
// knows what is in force.
func (r *run) apply(f *config.File) error {
	err := r.changeable(f)
	if err == nil {
		err = r.proxy.Reload(f.Policies, f.Proxy, false)
	}
	if err != nil {
		return err // the watcher calls failed
	}
	r.file.Store(f)
	r.proxy.tally.reloads.Add(1)
	r.options.Log.Info("reloaded", "file", f.Name, "hash", effectiveOf(f).Hash)
	r.looks.ended(nil)
	return nil
}

// failed tells of a version that is not in force.
func (r *run) failed(err error) {
	r.proxy.tally.badReloads.Add(1)
	r.options.Log.Error("the file was not put into force: the last good one stays", "error", err)
	r.looks.ended(err)
}

// reload reads the file because an operator asks for it.
func (r *run) reload(ctx context.Context, dry bool) error {
	if !dry {
		return r.looks.ask(ctx)
	}
	f, err := config.Load(r.path)
	if err == nil {
		err = r.changeable(f)
	}
	if err != nil {
		return err
	}
	return r.proxy.Reload(f.Policies, f.Proxy, true)
}

// changeable returns the lines of what only a start can put into force.
func (r *run) changeable(f *config.File) error {
	before := r.file.Load().Proxy
	fixed := restarts(before, f.Proxy)
	if a, b := f.Proxy.Admin, before.Admin; withHost(a.Address) != withHost(b.Address) {
		fixed = append(fixed, "proxy.admin.address")
	} else if a.Overrides != b.Overrides {
		fixed = append(fixed, "proxy.admin.overrides")
	}
	var found config.Findings
	for _, path := range fixed {
		found = append(found, config.Finding(policyfile.Of(f).Finding("", path, path+" "+needsRestart, "restart the proxy to put the file into force, or write what was there before")))
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

const needsRestart = "needs a restart: a reload can't change it"

// restarts are the keys of listeners that are part of an open address, where a configuration changes them.
func restarts(before, after config.Proxy) (fixed []string) {
	for i := range after.Listen {
		l := &after.Listen[i]
		at := slices.IndexFunc(before.Listen, func(b config.ProxyListener) bool { return withHost(b.Address) == withHost(l.Address) })
		if at < 0 {
			if slices.ContainsFunc(before.Listen, func(b config.ProxyListener) bool { return overlap(b.Address, l.Address) }) {
				fixed = append(fixed, fmt.Sprintf("proxy.listen[%d].address", i))
			}
			continue
		}
		b := &before.Listen[at]
		for _, one := range []struct {
			key     string
			differs bool
		}{
			{"tls", (l.TLS.Cert == "") != (b.TLS.Cert == "")},
			{"max_header", cmp.Or(l.MaxHeader, defaultHeader) != cmp.Or(b.MaxHeader, defaultHeader)},
			{"max_connections", cmp.Or(l.MaxConnections, defaultConnections) != cmp.Or(b.MaxConnections, defaultConnections)},
			{"header_timeout", cmp.Or(l.HeaderTimeout, defaultHeaderTimeout) != cmp.Or(b.HeaderTimeout, defaultHeaderTimeout)},
			{"idle_timeout", cmp.Or(l.IdleTimeout, defaultIdle) != cmp.Or(b.IdleTimeout, defaultIdle)},
		} {
			if one.differs {
				fixed = append(fixed, fmt.Sprintf("proxy.listen[%d].%s", i, one.key))
			}
		}
	}
	return fixed
}

// looks let operators ask the watcher for a look at the file, and wait for what came of it.
type looks struct {
	now    chan os.Signal
	asking sync.Mutex
	asker  atomic.Pointer[asker]
	over   <-chan struct{} // there is no watcher any more
}

// asker waits for the end of a look.
type asker struct {
	ended chan error
	gone  chan struct{}
}

// asked is what the watcher gets for a request of an operator.
type asked struct{}

// String implements [os.Signal].
func (asked) String() string { return "reload" }

// Signal implements [os.Signal].
func (asked) Signal() {}

var errNoWatcher = errors.New("the proxy drains: nothing is put into force any more")

// pass hands signals on until ctx is over.
func (l *looks) pass(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s, open := <-signals:
			if !open {
				return
			}
			select {
			case l.now <- s:
			case <-ctx.Done():
			}
		}
	}
}

// ended is called at the end of each look that did anything, by the watcher.
func (l *looks) ended(err error) {
	if a := l.asker.Load(); a != nil {
		select {
		case a.ended <- err:
		case <-a.gone:
		}
	}
}

// ask brings a look, and returns what came of it. The watcher does one thing after the other: what ends before it takes
// the request began before, and is not the answer.
func (l *looks) ask(ctx context.Context) error {
	l.asking.Lock()
	defer l.asking.Unlock()
	a := &asker{ended: make(chan error), gone: make(chan struct{})}
	l.asker.Store(a)
	defer func() {
		l.asker.Store(nil)
		close(a.gone)
	}()
	now := l.now
	for {
		select {
		case <-l.over:
			return errNoWatcher
		case <-ctx.Done():
			return ctx.Err()
		case now <- asked{}:
			now = nil
		case err := <-a.ended:
			if now == nil {
				return err
			}
		}
	}
}
