package dashboard

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// maxTiles bounds the page: names may come from traffic, as a registry's instances do. The
// others share one tile.
const maxTiles = 2500

// nameless is the tile of events that name no dependency.
const nameless = "(no name)"

// A collector keeps what a page shows. It reads no clock and starts nothing, so a
// recording is shown by the same code as a living program. It is safe for concurrent use.
type collector struct {
	tiles  atomic.Pointer[map[string]*tile] // never changed, but replaced
	drafts *drafts

	mu   sync.Mutex    // held while tiles are replaced
	full time.Duration // when room was looked for last
}

func newCollector() *collector {
	c := &collector{drafts: new(drafts)}
	c.tiles.Store(&map[string]*tile{})
	return c
}

// observe takes an event in. The clock is read when the event's own does not do.
func (c *collector) observe(clock func() time.Duration, e *policy.Event) {
	t := (*c.tiles.Load())[e.Dependency]
	if t == nil {
		t = c.tile(clock(), or(e.Dependency, nameless))
	}
	now := t.observe(clock, e, e.Kind == policy.KindReturned && notSent(e.Reason) && !c.drafts.refused(e.Call))
	c.drafts.write(now, e, t)
}

// tile finds a dependency's tile or makes it.
func (c *collector) tile(now time.Duration, name string) *tile {
	name = bounded(name)
	if t := c.shared(now, name); t != nil {
		return t
	}
	c.expect(now, name)
	tiles := *c.tiles.Load()
	if t := tiles[name]; t != nil {
		return t
	}
	return tiles[terms.Overflow]
}

// forget begins anew.
func (c *collector) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tiles.Store(&map[string]*tile{})
	c.drafts = new(drafts)
}

// expect makes tiles for dependencies that were perhaps never called.
func (c *collector) expect(now time.Duration, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := maps.Clone(*c.tiles.Load())
	for _, name := range names {
		if next[name] != nil {
			continue
		}
		if len(next) >= maxTiles && now-c.full >= roomPause {
			c.full = now
			makeRoom(now, next)
		}
		if len(next) >= maxTiles {
			name = terms.Overflow // one more than the bound, and the last
		}
		if next[name] == nil {
			next[name] = newTile(now, name)
		}
	}
	c.tiles.Store(&next)
}

func newTile(now time.Duration, name string) *tile {
	t := &tile{name: name}
	t.flow.now = int64(now / time.Second)
	return t
}

// shared returns the tile of those for which there is no room, if that was so just now: a flood
// of names must not look for room at every event.
func (c *collector) shared(now time.Duration, name string) *tile {
	tiles := *c.tiles.Load()
	if tiles[name] != nil || len(tiles) < maxTiles {
		return tiles[name]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now-c.full < roomPause {
		return tiles[terms.Overflow]
	}
	return nil
}

const (
	idleTile  = 10 * time.Minute // a tile must have heard nothing for so long before another takes its place
	roomPause = time.Second      // room is looked for no more often
)

func makeRoom(now time.Duration, tiles map[string]*tile) {
	maps.DeleteFunc(tiles, func(_ string, t *tile) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return now-t.last > idleTile
	})
}
