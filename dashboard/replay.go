package dashboard

import (
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
)

// Replay makes a page that plays a recording, or a run of the lab, in place of a living
// program. It plays while there are viewers, from the beginning and once; viewers can stop it, go
// to another moment and change its speed, all of them together.
//
// events returns the recording from its beginning, each time it is called, with the time of each event
// in rising order; one that lies before the last counts as it. Package record's Entries and Entry.Time
// read such from a file. Of c, Registry, Dependencies and AllowOverrides mean nothing. Speed is how much
// faster than it was it is played at first; zero or less means 1. Close lets go of the recording.
func Replay(c Config, speed float64, events func() iter.Seq2[time.Time, gabion.Event]) *Page {
	if speed <= 0 {
		speed = 1
	}
	c.Registry, c.Dependencies, c.AllowOverrides = nil, nil, false
	p := New(c)
	pl := &player{events: events, speed: speed, playing: true}
	for at := range events() {
		if pl.first.IsZero() {
			pl.first, pl.last = at, at
		}
		pl.last = later(pl.last, at)
		pl.count++
	}
	if pl.count > 0 {
		p.origin = pl.first.Add(-replayLead)
	} else {
		pl.first, pl.last = p.origin, p.origin
	}
	pl.end = pl.last.Sub(p.origin) + replayLead
	p.player = pl
	p.rewind(replayLead)
	return p
}

const (
	replayLead = time.Second            // of nothing before the first event and after the last
	replayIdle = 2 * time.Second        // without a viewer for this long, time stood still
	replayTick = 250 * time.Millisecond // between frames
	manyTiles  = 100                    // with more, frames are as far apart as those of a living page
)

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// A player feeds a page with a recording. All but the first line is guarded by the page's
// sampling lock.
type player struct {
	events      func() iter.Seq2[time.Time, gabion.Event]
	first, last time.Time
	end         time.Duration // on the page's clock
	count       int

	mu      sync.Mutex
	at      time.Duration // on the page's clock
	wall    time.Time     // when that was; zero before anybody watched
	speed   float64
	playing bool

	next func() (time.Time, gabion.Event, bool)
	stop func()
	held gabion.Event // read and not fed yet
	due  time.Duration
	more bool
}

// replayed says where a replay is, for viewers.
type replayed struct {
	First   int64   `json:"first"`
	Last    int64   `json:"last"`
	Speed   float64 `json:"speed"`
	Playing bool    `json:"playing"`
	Events  int     `json:"events"`
}

// now is where the replay is.
func (pl *player) now() time.Duration {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.at
}

func (pl *player) state(v *view) *replayed {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return &replayed{
		First: pl.first.UnixMilli(), Last: v.date(pl.end), Speed: pl.speed, Playing: pl.playing && pl.at < pl.end, Events: pl.count,
	}
}

// rewind begins anew, and feeds what lies before a moment at once. The caller holds p.sampling,
// or the page is not known to anybody yet.
func (p *Page) rewind(to time.Duration) {
	pl := p.player
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.stop != nil {
		pl.stop()
	}
	p.watched.forget()
	pl.next, pl.stop = iter.Pull2(pl.events())
	pl.due = 0
	pl.read(p.origin)
	pl.at = min(max(to, 0), pl.end)
	pl.feed(p)
}

// Seek moves a replay to a moment of its recording, or to the end that is nearer. A page of a
// living program stays as it is.
func (p *Page) Seek(to time.Time) {
	if p.player == nil {
		return
	}
	p.sampling.Lock()
	defer p.sampling.Unlock()
	p.rewind(to.Sub(p.origin))
}

// close lets go of the recording.
func (pl *player) close() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.more = false
	if pl.stop != nil {
		pl.stop()
	}
}

// read takes the next event out of the recording.
func (pl *player) read(origin time.Time) {
	at, e, ok := pl.next()
	pl.held, pl.more = e, ok
	if ok {
		pl.due = max(pl.due, at.Sub(origin))
	}
}

// feed tells the page what was until now.
func (pl *player) feed(p *Page) {
	for pl.more && pl.due <= pl.at {
		p.watched.observe(func() time.Duration { return pl.due }, &pl.held)
		pl.read(p.origin)
	}
}

// advance plays on. The caller holds p.sampling.
func (p *Page) advance(wall time.Time) {
	pl := p.player
	pl.mu.Lock()
	defer pl.mu.Unlock()
	passed := wall.Sub(pl.wall)
	if pl.wall.IsZero() || passed > replayIdle {
		passed = 0
	}
	pl.wall = wall
	if pl.playing {
		pl.at = min(pl.at+time.Duration(float64(passed)*pl.speed), pl.end)
		pl.feed(p)
	}
}

// serveReplay moves a replay. What is left out stays as it is.
func (p *Page) serveReplay(w http.ResponseWriter, r *http.Request) {
	if p.player == nil {
		http.Error(w, "This page shows a living program.", http.StatusNotFound)
		return
	}
	if status, why := sameOrigin(r); status != http.StatusOK {
		http.Error(w, why, status)
		return
	}
	var want struct {
		At      *int64   `json:"at"` // milliseconds since 1970
		Speed   *float64 `json:"speed"`
		Playing *bool    `json:"playing"`
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOverride))
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		http.Error(w, "The request is no JSON object of this kind.", http.StatusBadRequest)
		return
	}
	p.sampling.Lock()
	defer p.sampling.Unlock()
	p.advance(time.Now()) // as it was until now
	if want.At != nil {
		p.rewind(time.UnixMilli(*want.At).Sub(p.origin))
	}
	p.player.mu.Lock()
	defer p.player.mu.Unlock()
	if want.Speed != nil && *want.Speed > 0 && *want.Speed <= 1000 {
		p.player.speed = *want.Speed
	}
	if want.Playing != nil {
		p.player.playing = *want.Playing
	}
	w.WriteHeader(http.StatusNoContent)
}
