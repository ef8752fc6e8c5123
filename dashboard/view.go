package dashboard

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A view is one look at a collector.
type view struct {
	now    time.Duration
	origin time.Time // of now
	sum    slot      // of the tile that is being looked at
}

// date is a time as frames write it.
func (v *view) date(at time.Duration) int64 {
	switch at {
	case 0:
		return 0
	case forever:
		return -1
	}
	return v.origin.Add(at).UnixMilli()
}

// A frame is what viewers get, as JSON. The first has every tile and its history, the others
// those that changed.
type frame struct {
	Version   int               `json:"version"`
	Title     string            `json:"title"`
	At        int64             `json:"at"`
	Second    int64             `json:"second"` // number of the newest whole second of the histories
	Full      bool              `json:"full"`
	Overrides bool              `json:"overrides"`
	Letters   bool              `json:"letters,omitempty"` // there is a tab of dead letters
	Replay    *replayed         `json:"replay,omitempty"`
	Gone      []string          `json:"gone,omitempty"`
	Tiles     []json.RawMessage `json:"tiles"` // the last field: see encoded
}

// frameVersion is that of the JSON. It rises when something means something else.
const frameVersion = 1

// sorted returns the tiles by name.
func (c *collector) sorted() []*tile {
	all := make([]*tile, 0, 16)
	for _, t := range *c.tiles.Load() {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *tile) int { return strings.Compare(a.name, b.name) })
	return all
}

// rows describes every tile.
func (c *collector) rows(v *view, history bool) []row {
	tiles := c.sorted()
	rows := make([]row, len(tiles))
	for i, t := range tiles {
		t.mu.Lock()
		rows[i] = t.row(v)
		if history {
			rows[i].History = t.history()
		}
		t.mu.Unlock()
	}
	return rows
}

// changes writes the tiles that are not as in before, and notes there how they are now.
func (c *collector) changes(v *view, before map[string]string) (changed []json.RawMessage, gone []string) {
	changed = []json.RawMessage{}
	tiles := *c.tiles.Load()
	for _, t := range c.sorted() {
		t.mu.Lock()
		r := t.row(v)
		t.mu.Unlock()
		text, err := json.Marshal(&r)
		if err != nil || before[t.name] == string(text) {
			continue
		}
		before[t.name] = string(text)
		changed = append(changed, text)
	}
	for name := range before {
		if tiles[name] == nil {
			delete(before, name)
			gone = append(gone, name)
		}
	}
	return changed, gone
}
