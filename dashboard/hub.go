package dashboard

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// queuedFrames is how many frames wait for a viewer that is slow. Then the oldest are dropped,
// and the viewer gets a full frame once it reads again.
const queuedFrames = 4

// A hub makes one frame a second while there are viewers, and hands it to each.
type hub struct {
	page *Page

	mu      sync.Mutex // guards all below
	viewers map[*viewer]bool
	closed  bool
	running bool
	quit    chan struct{}

	frames sync.Mutex // guards what the sampler knows; held while a frame is made
	number uint64
	second int64             // of the last frame
	last   map[string]string // the tiles as the last frame had them
	recent ring[message]     // the last frames, for viewers that come back
}

// A message is a frame on its way.
type message struct {
	id   uint64
	text []byte
}

// A viewer is one stream.
type viewer struct {
	mu     sync.Mutex
	queue  []message
	behind bool          // frames were dropped
	wake   chan struct{} // there is something to do
	gone   chan struct{} // the page is closed
}

// join adds a viewer, and starts the sampler for the first. It returns nil when the page is
// closed.
func (h *hub) join() *viewer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	v := &viewer{wake: make(chan struct{}, 1), gone: make(chan struct{})}
	if h.viewers == nil {
		h.viewers = map[*viewer]bool{}
	}
	h.viewers[v] = true
	if !h.running {
		h.running, h.quit = true, make(chan struct{})
		go h.run(h.quit)
	}
	return v
}

// leave forgets a viewer, and stops the sampler after the last.
func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v)
	if len(h.viewers) == 0 && h.running {
		h.running = false
		close(h.quit)
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for v := range h.viewers {
		close(v.gone)
	}
}

// run makes frames until quit.
func (h *hub) run(quit chan struct{}) {
	for {
		wait := time.NewTimer(h.pause())
		select {
		case <-quit:
			wait.Stop()
			return
		case <-wait.C:
			h.send(h.next())
		}
	}
}

// pause is the time until the next frame. Those of a living program are in the middle of a second of
// the page's clock, so every whole second has one frame.
func (h *hub) pause() time.Duration {
	if h.page.player != nil {
		if len(*h.page.watched.tiles.Load()) > manyTiles {
			return sampleEvery
		}
		return replayTick
	}
	now := h.page.now()
	return (now + sampleEvery/2).Truncate(sampleEvery) + sampleEvery/2 - now
}

// send hands a frame to every viewer. It waits for none.
func (h *hub) send(m message) {
	h.mu.Lock()
	viewers := maps.Clone(h.viewers)
	h.mu.Unlock()
	for v := range viewers {
		v.put(m)
	}
}

func (v *viewer) put(m message) {
	v.mu.Lock()
	if len(v.queue) == queuedFrames {
		v.queue, v.behind = append(v.queue[:0], v.queue[1:]...), true
	}
	v.queue = append(v.queue, m)
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// take returns what waits, and whether something was dropped before it.
func (v *viewer) take() (all []message, behind bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	all, behind = v.queue, v.behind
	v.queue, v.behind = nil, false
	return all, behind
}

// next makes the next frame: the tiles that changed.
func (h *hub) next() message {
	h.frames.Lock()
	defer h.frames.Unlock()
	v := h.page.look()
	f := h.page.frame(v)
	if h.page.player != nil { // its seconds pass in leaps
		return h.whole(v, &f)
	}
	h.number++
	gap := h.number > 1 && f.Second > h.second+1
	h.second = f.Second
	var m message
	if gap { // there was no viewer, or the machine slept: changes would leave a hole in the charts
		m = h.whole(v, &f)
	} else {
		f.Tiles, f.Gone = h.page.watched.changes(v, h.last)
		m = encoded(h.number, &f)
	}
	h.recent.put(m, queuedFrames)
	return m
}

// since returns the frames after that number, if they are all still there.
func (h *hub) since(number uint64) (missed []message, ok bool) {
	h.frames.Lock()
	defer h.frames.Unlock()
	if number == 0 || number > h.number {
		return nil, false
	}
	h.recent.newest(func(m *message) bool {
		if m.id > number {
			missed = append(missed, *m)
		}
		return m.id > number
	})
	slices.Reverse(missed)
	return missed, uint64(len(missed)) == h.number-number
}

// full makes a frame with every tile and its history. It has the number of the last frame, and
// those that follow are changes to it or to what came before it.
func (h *hub) full() message {
	h.frames.Lock()
	defer h.frames.Unlock()
	v := h.page.look()
	f := h.page.frame(v)
	return h.whole(v, &f)
}

// whole fills a frame with every tile. The caller holds h.frames.
func (h *hub) whole(v *view, f *frame) message {
	f.Full = true
	for _, r := range h.page.watched.rows(v, true) {
		text, err := json.Marshal(&r)
		if err != nil {
			continue
		}
		f.Tiles = append(f.Tiles, text)
		h.last[r.Name] = "" // the next frame has it in any case, lest it look as in the last one again
	}
	return encoded(h.number, f)
}

// encoded writes a frame. Its tiles are JSON already, and most of it: package json would read
// them once more.
func encoded(number uint64, f *frame) message {
	tiles := f.Tiles
	f.Tiles = []json.RawMessage{}
	text, err := json.Marshal(f)
	f.Tiles = tiles
	text, ends := bytes.CutSuffix(text, []byte("]}"))
	if err != nil || !ends {
		return message{number, []byte(`{"version":` + strconv.Itoa(frameVersion) + `,"tiles":[]}`)}
	}
	size := len(text) + 2
	for _, t := range tiles {
		size += len(t) + 1
	}
	text = slices.Grow(text, size-len(text))
	for i, t := range tiles {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, t...)
	}
	return message{number, append(text, "]}"...)}
}

// frame is a frame without tiles.
func (p *Page) frame(v *view) frame {
	f := frame{
		Version: frameVersion, Title: p.config.Title, At: v.date(v.now), Second: int64(v.now/time.Second) - 1,
		Overrides: p.config.AllowOverrides, Letters: p.config.Letters != nil, Tiles: []json.RawMessage{},
	}
	if p.player != nil {
		f.Replay = p.player.state(v)
	}
	return f
}
