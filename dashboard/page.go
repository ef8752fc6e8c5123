package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// Config says what a [Page] shows. The zero Config shows only the events of [Page.Observe].
type Config struct {
	// Title is the page's heading. Empty means "gabion".
	Title string

	// Registry holds dependencies to show, with their instances, also those that come
	// later. Nil means none.
	Registry *gabion.Registry

	// Dependencies are further ones, which are in no registry. A nil one is left out.
	Dependencies []*gabion.Dependency

	// AllowOverrides lets everyone who sees the page open and close breakers and switch retries off.
	// See the package's notes on security. The zero value shows no such controls and refuses such
	// requests.
	AllowOverrides bool

	// Settings tells the rules that are in force for a dependency, and where each comes
	// from; package config's File.Explain knows. Nil, or a nil answer, means that the page reads the
	// dependency's policy, and tells defaults from the rest. It is called by requests, at the
	// same time.
	Settings func(dependency string) []policy.Setting

	// Letters shows a store of dead letters in a tab of its own, without payloads and
	// the values of headers. With AllowOverrides, letters can be redriven, resolved and
	// dropped there. It is asked only while there are viewers. Nil means no such tab.
	Letters Letters
}

// A Page is a live page, and an [gabion.Observer]. Make one with [New]. It is safe for
// concurrent use.
//
// It observes its dependencies from the moment it is made, because a viewer wants to know what went
// wrong before. That costs a call less than a microsecond. It asks them for their state once a second
// while there are viewers, and not at all otherwise.
type Page struct {
	config   Config
	origin   time.Time
	clock    func() time.Duration // now
	watched  *collector
	stops    []func()
	routes   map[string]http.HandlerFunc
	sampling sync.Mutex // held while the dependencies are asked
	sampled  time.Duration
	turns    int                      // how often they were asked
	due      map[string]time.Duration // when dependencies with many partitions are asked again

	hub    hub
	player *player // nil unless a recording is played
}

// Handler returns the page of a registry. It is a [Page], and can be closed.
func Handler(registry *gabion.Registry) http.Handler { return New(Config{Registry: registry}) }

// New makes a page and begins to observe. It stops with [Page.Close].
func New(c Config) *Page {
	c.Title = cmp.Or(c.Title, "gabion")
	p := &Page{config: c, origin: time.Now(), watched: newCollector(), due: map[string]time.Duration{}}
	p.clock = p.now
	p.hub.page, p.hub.last = p, map[string]string{}
	p.route()
	if c.Registry != nil {
		p.stops = append(p.stops, c.Registry.Observe(p))
	}
	for _, d := range c.Dependencies {
		if d != nil {
			p.stops = append(p.stops, d.Observe(p))
		}
	}
	p.expect()
	return p
}

// Observe takes an event in. A page observes its dependencies by itself. Call this with events of what
// is no gabion dependency, such as a hand-written retry loop: each name that
// [gabion.Event.Dependency] has gets a tile. Such events need Kind, Dependency, Operation, and what
// [gabion.Event] says of their kind: KindAttemptSent and KindAttemptSettled for each attempt, KindReturned
// for each call, with the same Call for those that belong together, and an At that goes on as time does; zero
// is now.
// A page that plays a recording takes none.
func (p *Page) Observe(_ context.Context, e gabion.Event) {
	if p.player == nil {
		p.watched.observe(p.clock, &e)
	}
}

// Close ends the observing and every stream. What is shown stays. Closing twice is
// harmless.
func (p *Page) Close() error {
	for _, stop := range p.stops {
		stop()
	}
	p.hub.close()
	if p.player != nil {
		p.player.close()
	}
	return nil
}

// now is the time since the page began, or where its recording is.
func (p *Page) now() time.Duration {
	if p.player != nil {
		return p.player.now()
	}
	return time.Since(p.origin)
}

// dependencies returns all that the page shows, by name.
func (p *Page) dependencies() []*gabion.Dependency {
	var all []*gabion.Dependency
	if p.config.Registry != nil {
		all = p.config.Registry.All()
	}
	for _, d := range p.config.Dependencies {
		if d != nil {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b *gabion.Dependency) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// expect makes tiles for dependencies without a call yet.
func (p *Page) expect() {
	var fresh []string
	tiles := *p.watched.tiles.Load()
	for _, d := range p.dependencies() {
		if tiles[bounded(d.Name())] == nil {
			fresh = append(fresh, bounded(d.Name()))
		}
	}
	if len(fresh) > 0 {
		p.watched.expect(p.now(), fresh...)
	}
}

// dependency returns the one of that name.
func (p *Page) dependency(name string) *gabion.Dependency {
	for _, d := range p.dependencies() {
		if bounded(d.Name()) == name {
			return d
		}
	}
	return nil
}

const (
	sampleEvery = time.Second // frames, and how often dependencies are asked at most

	// To ask a dependency costs as much as it has partitions, so one with more than that is
	// asked less often. Its events are as quick as ever.
	oftenPartitions = 50

	// This number is asked for each frame, and those in trouble. The others have their turn in the next
	// frames.
	askedPerFrame = 250
)

// sample asks every dependency for its state, unless that was done just now.
func (p *Page) sample() {
	p.sampling.Lock()
	defer p.sampling.Unlock()
	if p.player != nil {
		p.advance(time.Now())
		return
	}
	if at := p.now(); p.sampled != 0 && at-p.sampled < sampleEvery/2 {
		return
	}
	p.expect()
	now := p.now()
	all := p.dependencies()
	for i, d := range all {
		if now < p.due[d.Name()] || !p.turn(i, len(all)) && p.watched.calm(bounded(d.Name())) {
			continue
		}
		delete(p.due, d.Name())
		stats := d.Stats()
		if n := len(stats.Partitions); n > oftenPartitions {
			p.due[d.Name()] = now + sampleEvery*time.Duration(n/oftenPartitions)
		}
		p.watched.sample(now, &stats, d.Policy())
	}
	p.sampled = now
	p.turns++
}

// turn reports whether it is the i-th dependency's turn to be asked.
func (p *Page) turn(i, all int) bool {
	groups := (all + askedPerFrame - 1) / askedPerFrame
	return i%groups == p.turns%groups
}

// look returns a view of this moment.
func (p *Page) look() *view {
	p.sample()
	return &view{now: p.now(), origin: p.origin}
}

// Viewers returns how many streams are open: how many browsers watch.
func (p *Page) Viewers() int {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return len(p.hub.viewers)
}
