package deadletter

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A Notice says which waiting letters are about to be removed because a store is full: the
// oldest ones, up to Last. Not more than Letters are removed after it.
type Notice struct {
	Letters int
	Bytes   int64
	Before  time.Time // all of them were put away before this, or at this time
	Last    Place     // of the last of them, in the order of lists
	Groups  map[string]GroupNotice
}

// A GroupNotice is the part of a [Notice] that is about one group.
type GroupNotice struct {
	Letters int
	Bytes   int64
	Oldest  time.Time // when the oldest of them was put away
}

// Add adds a letter to the notice. Letters are added in the order of lists. It is for those who
// write stores.
func (n *Notice) Add(group string, bytes int64, at Place) {
	n.Letters, n.Bytes, n.Before, n.Last = n.Letters+1, n.Bytes+bytes, Time(at.Kept), at
	g, known := n.Groups[group]
	if !known {
		g.Oldest = n.Before
	}
	g.Letters, g.Bytes = g.Letters+1, g.Bytes+bytes
	if n.Groups == nil {
		n.Groups = map[string]GroupNotice{}
	}
	n.Groups[group] = g
}

// A Room makes room for letters in a store that is full. Make one with [NewRoom]. It is for
// those who write stores. Safe for concurrent use.
type Room struct {
	options Options
	made    time.Time     // the origin of the events' instants
	turn    chan struct{} // held by who makes room: another would tell of the same letters
}

// NewRoom returns a Room that tells whom the options name.
func NewRoom(o Options) *Room {
	return &Room{options: o, made: time.Now(), turn: make(chan struct{}, 1)}
}

// Put puts a letter away for which there may be no room. Try puts it away, or returns which
// letters have to go before; remove removes these. One call at a time is at that.
func (r *Room) Put(ctx context.Context, try func() (*Notice, error), remove func(Notice) error) error {
	n, err := try()
	if n == nil || err != nil {
		return err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for ctx.Err() == nil {
		if n, err = try(); n == nil || err != nil { // others may have made room meanwhile
			return err
		}
		r.tell(ctx, n)
		if err := remove(*n); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// tell reports letters that are about to be removed. A panic in Dropping or Stream removes nothing
// from the store.
func (r *Room) tell(ctx context.Context, n *Notice) {
	if r.options.Dropping != nil {
		contained(func() { r.options.Dropping(ctx, *n) })
	}
	if r.options.Stream == nil {
		return
	}
	now := r.options.now()
	for _, name := range slices.Sorted(maps.Keys(n.Groups)) {
		g := n.Groups[name]
		e := policy.Event{
			Kind: policy.KindLettersLost, Dependency: name, At: policy.Instant(time.Since(r.made)), Count: int64(g.Letters),
			Numbers: &policy.Numbers{Bytes: g.Bytes, Waited: max(0, now.Sub(g.Oldest))},
		}
		contained(func() { r.options.Stream.Observe(ctx, e) })
	}
}

func contained(do func()) {
	defer func() { _ = recover() }()
	do()
}
