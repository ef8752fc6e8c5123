package gabioncaddy

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/policy"
)

// groups are those in use, by the absolute path of their file. A reload of Caddy makes the new configuration before it lets go of
// the old one, so that a group whose file both name stays.
var groups = caddy.NewUsagePool()

// watchEach is how often a file is looked at, as gabion proxy does it.
const watchEach = time.Second

// group is what all transports of one file share: the state of its dependencies, and the memory for bodies.
type group struct {
	path  string
	proxy *gabionproxy.Proxy
	stop  context.CancelFunc
	ended chan struct{} // closed when the file is not watched any more

	look chan os.Signal // brings a look at the file

	mu      sync.Mutex     // held from reading the file until it is in force
	uses    map[string]int // transports, by their dependency
	inForce map[string]policy.Policy
	next    *config.File // lacks what only the configuration before uses, and is put into force when that lets go; nil means none
}

// join returns the group of a file, for a transport of that dependency. Each is left once.
func join(file, dependency string) (*group, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	shared, loaded, err := groups.LoadOrNew(path, func() (caddy.Destructor, error) { return newGroup(path) })
	if err != nil {
		return nil, err
	}
	g := shared.(*group)
	if err := g.enter(dependency, loaded); err != nil {
		_, _ = groups.Delete(path) // Destruct has no error
		return nil, err
	}
	return g, nil
}

func newGroup(path string) (*group, error) {
	file, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		return nil, err
	}
	proxy, err := gabionproxy.New(own(file), registry, gabionproxy.Options{})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &group{path: path, proxy: proxy, stop: stop, ended: make(chan struct{}), look: make(chan os.Signal, 1), uses: map[string]int{}, inForce: file.Policies}
	go func() {
		defer close(g.ended)
		watch := config.Watching{Apply: g.apply, Failed: failed, Interval: watchEach, Now: g.look}
		if err := config.Watch(ctx, file, watch); err != nil {
			failed(err)
		}
	}()
	return g, nil
}

// own is what of a file's section proxy concerns Caddy: the listeners there are for gabion proxy.
func own(file *config.File) config.Proxy { return config.Proxy{BufferMemory: file.Proxy.BufferMemory} }

// enter adds a transport. A group that was there before takes the file as it is now, since an operator reloads Caddy when that has
// changed, and the watch may not have seen it yet.
func (g *group) enter(dependency string, known bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	file, err := config.Load(g.path)
	if err != nil {
		return err
	}
	if err := usable(file, dependency); err != nil {
		return err
	}
	switch {
	case !known:
	case g.suits(file) != nil:
		err = g.add(file)
	default:
		err = g.put(file)
	}
	if err == nil {
		g.uses[dependency]++
	}
	return err
}

// add puts into force what of a file is not in use yet. The rest follows when the configuration before lets go of what the file
// lacks; if Caddy gives up the new one, nothing has changed for it.
func (g *group) add(file *config.File) error {
	all := maps.Clone(file.Policies)
	for name := range g.uses {
		all[name] = g.inForce[name]
	}
	if err := g.proxy.Reload(all, g.proxy.Config(), false); err != nil {
		return err
	}
	g.inForce, g.next = all, file
	return nil
}

// usable says why a transport can't use a dependency as the file has it.
func usable(file *config.File, name string) error {
	rules, ok := file.Policies[name]
	switch {
	case !ok:
		return fmt.Errorf("%s has no dependency %q; it has %q", file.Name, name, slices.Sorted(maps.Keys(file.Policies)))
	case len(rules.Endpoints.List) > 0:
		return fmt.Errorf("%s: dependency %q has endpoints of its own, and in Caddy the upstreams of reverse_proxy say where requests go: remove one of the two", file.Name, name)
	}
	return nil
}

// suits says what a file lacks that is used.
func (g *group) suits(file *config.File) error {
	for _, name := range slices.Sorted(maps.Keys(g.uses)) {
		if err := usable(file, name); err != nil {
			return err
		}
	}
	return nil
}

// put is called with the lock.
func (g *group) put(file *config.File) error {
	if err := g.suits(file); err != nil {
		return err
	}
	if err := g.proxy.Reload(file.Policies, own(file), false); err != nil {
		return err
	}
	g.inForce, g.next = file.Policies, nil
	return nil
}

// apply puts a new version of the file into force.
func (g *group) apply(file *config.File) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.put(file); err != nil {
		return err
	}
	logger().Info("reloaded", zap.String("file", file.Name))
	return nil
}

// leave takes a transport of that dependency out, and ends the group with its last one.
func (g *group) leave(dependency string) error {
	g.mu.Lock()
	if g.uses[dependency]--; g.uses[dependency] == 0 {
		delete(g.uses, dependency)
	}
	if g.next != nil && g.suits(g.next) == nil {
		if err := g.put(g.next); err != nil {
			failed(err)
		}
		select {
		case g.look <- syscall.SIGHUP: // the watch may have refused that version
		default:
		}
	}
	g.mu.Unlock()
	_, err := groups.Delete(g.path)
	return err
}

// Destruct implements [caddy.Destructor].
func (g *group) Destruct() error {
	g.stop()
	<-g.ended
	return nil
}

// failed tells of a version that is not in force.
func failed(err error) {
	logger().Error("the file was not put into force: the last good one stays", zap.Error(err))
}

// logger is that of the configuration that Caddy runs now, since groups outlive configurations.
func logger() *zap.Logger { return caddy.Log().Named("http.reverse_proxy.transport.gabion") }
