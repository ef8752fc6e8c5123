package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gabion-go/gabion/internal/fleet"
	"github.com/gabion-go/gabion/policy"
)

// Action is what an [Override] does.
type Action string

// What an override can do.
const (
	ForceOpen  Action = "force-open"  // the breakers refuse every call
	Disable    Action = "disable"     // the breakers let every call through and count nothing
	Observe    Action = "observe"     // the breakers count and report, and refuse nothing
	RetriesOff Action = "retries-off" // no retries and no hedges
	LimitRate  Action = "rate"        // all processes together start at most Rate attempts a second
)

// Everything is the [Override.Dependency] that stands for every dependency. With [RetriesOff] it is the
// kill switch.
const Everything = "*"

// MaxOverride is the longest time that an override can last.
const MaxOverride = 24 * time.Hour

// Override is what an operator wants all processes of a fleet to do for a time.
type Override struct {
	// ID names the override, for [Lift]. Steer sets it.
	ID string `json:"id"`

	// Dependency is the name of the one it is for, instances included, or [Everything].
	Dependency string `json:"dependency"`

	Action Action `json:"action"`

	// Rate is for LimitRate. Zero means nothing with other actions.
	Rate policy.PerSecond `json:"rate,omitempty"`

	// For is how long it lasts, at most [MaxOverride]. Zero is a mistake: every override ends.
	For time.Duration `json:"for"`

	// Who wants it, and why: a name and a ticket, for the audit and for events. Neither may be empty.
	Who string `json:"who"`
	Why string `json:"why"`

	// At is when it was made, and Until when it ends, by the store's clock. Steer sets both.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`

	// LiftedAt is when it was ended by hand. Zero means that it was not. LiftedBy and LiftedWhy say who did it.
	LiftedAt  time.Time `json:"lifted_at,omitzero"`
	LiftedBy  string    `json:"lifted_by,omitempty"`
	LiftedWhy string    `json:"lifted_why,omitempty"`
}

// Active reports whether the override is in force at a time of the store's clock.
func (o *Override) Active(now time.Time) bool { return o.LiftedAt.IsZero() && now.Before(o.Until) }

// covers reports whether the override is for a dependency, or for one that an instance was made of.
func (o *Override) covers(dependency string) bool {
	return o.Dependency == Everything || o.Dependency == dependency || strings.HasPrefix(dependency, o.Dependency+"/")
}

// by is who moved something, as events have it.
func (o *Override) by() string { return o.Who + ": " + o.Why }

// The bounds of the record of overrides.
const (
	maxOverrides = 100 // those that ended included, the oldest of which go first
	maxText      = 200 // bytes of a name or a reason
	maxSwaps     = 20  // how often another may be quicker
)

// ErrTooMany is the error of [Steer] while 100 overrides are in force.
var ErrTooMany = errors.New("fleet: 100 overrides are in force: lift one first")

// ErrNotInForce is the error of [Lift] for an override that has ended, was lifted, or never was.
var ErrNotInForce = errors.New("fleet: no such override is in force")

// Steer makes an override, and returns it as it is in force. Processes of the fleet follow at their next renewal,
// which is at most a second away, also those that start later. If the store fails, the override
// may be in force all the same: [Overrides] says.
func Steer(ctx context.Context, s Store, name string, o Override) (Override, error) {
	if err := errors.Join(validFleet(name), o.check()); err != nil {
		return Override{}, err
	}
	o.ID = randomID()
	err := amend(ctx, s, name, func(all *[]Override, now time.Time) error {
		o.At, o.Until = now, now.Add(o.For)
		*all = append(*all, o)
		return shorten(all, now)
	})
	if err != nil {
		return Override{}, err
	}
	return o, nil
}

// Lift ends an override before its time. Who and why are for the audit, and may not be empty. The error is [ErrNotInForce]
// for one that is not in force.
func Lift(ctx context.Context, s Store, name, id, who, why string) error {
	if err := errors.Join(validFleet(name), text("who", who), text("why", why)); err != nil {
		return err
	}
	return amend(ctx, s, name, func(all *[]Override, now time.Time) error {
		i := slices.IndexFunc(*all, func(o Override) bool { return o.ID == id && o.Active(now) })
		if i < 0 {
			return ErrNotInForce
		}
		o := &(*all)[i]
		o.LiftedAt, o.LiftedBy, o.LiftedWhy = now, who, why
		return nil
	})
}

// Overrides returns the overrides of a fleet, the oldest first, those included that have ended and are kept for the audit:
// a hundred in all. Now is the time of the store's clock.
func Overrides(ctx context.Context, s Store, name string) (all []Override, now time.Time, err error) {
	if err := validFleet(name); err != nil {
		return nil, time.Time{}, err
	}
	key := fleet.OverridesKey(name)
	r, err := s.Do(ctx, Batch{Get: []string{key}})
	if err != nil {
		return nil, time.Time{}, err
	}
	all, err = parseOverrides(r.Items[key].Value)
	return all, r.Now, err
}

// amend changes the record under compare-and-set.
func amend(ctx context.Context, s Store, name string, change func(*[]Override, time.Time) error) error {
	key := fleet.OverridesKey(name)
	for range maxSwaps {
		r, err := s.Do(ctx, Batch{Get: []string{key}})
		if err != nil {
			return err
		}
		item := r.Items[key]
		all, others, err := splitOverrides(item.Value)
		if err != nil {
			return err
		}
		if err := change(&all, r.Now); err != nil {
			return err
		}
		value, err := joinOverrides(all, others)
		if err != nil {
			return err
		}
		r, err = s.Do(ctx, Batch{Swap: &Put{Key: key, Value: value, Version: item.Version}})
		if err != nil {
			return fmt.Errorf("%w; it may be in force all the same: list the overrides", err)
		}
		if r.Swapped {
			return nil
		}
	}
	return fmt.Errorf("fleet: others changed the overrides %d times in a row; try again", maxSwaps)
}

// shorten drops the oldest that have ended, until the others are within the bound.
func shorten(all *[]Override, now time.Time) error {
	for len(*all) > maxOverrides {
		i := slices.IndexFunc(*all, func(o Override) bool { return !o.Active(now) })
		if i < 0 {
			return ErrTooMany
		}
		*all = slices.Delete(*all, i, i+1)
	}
	return nil
}

// overrideRecord is what the store has.
type overrideRecord struct {
	Format    int               `json:"v"`
	Overrides []json.RawMessage `json:"overrides"`
}

// recordFormat is of the records that are not internal/fleet's.
const recordFormat = 1

var errNewer = errors.New("fleet: a newer release wrote this record")

// parseOverrides reads a record. Nothing is no override.
func parseOverrides(value []byte) ([]Override, error) {
	all, _, err := splitOverrides(value)
	return all, err
}

// splitOverrides reads a record. What makes no sense is in others, so that one wrong entry does not undo the rest, and
// an action of a next release is not lost when this one changes the record.
func splitOverrides(value []byte) (all []Override, others []json.RawMessage, err error) {
	if len(value) == 0 {
		return nil, nil, nil
	}
	if len(value) > fleet.MaxRecord {
		return nil, nil, errors.New("fleet: the record of overrides is larger than 1 MB")
	}
	var r overrideRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, nil, fmt.Errorf("fleet: the record of overrides: %w", err)
	}
	if r.Format > recordFormat {
		return nil, nil, errNewer
	}
	for _, raw := range r.Overrides {
		var o Override
		if json.Unmarshal(raw, &o) != nil || o.check() != nil || o.ID == "" || o.Until.Sub(o.At) > MaxOverride {
			others = append(others, raw)
			continue
		}
		all = append(all, o)
	}
	return all[max(0, len(all)-maxOverrides):], others[max(0, len(others)-maxOverrides):], nil
}

// joinOverrides is the opposite of splitOverrides.
func joinOverrides(all []Override, others []json.RawMessage) ([]byte, error) {
	r := overrideRecord{Format: recordFormat, Overrides: others}
	for i := range all {
		raw, err := json.Marshal(&all[i])
		if err != nil {
			return nil, err
		}
		r.Overrides = append(r.Overrides, raw)
	}
	return json.Marshal(r)
}

// check says what is wrong with an override.
func (o *Override) check() error {
	err := errors.Join(text("who", o.Who), text("why", o.Why), text("the dependency", o.Dependency))
	switch o.Action {
	case ForceOpen, Disable, Observe, RetriesOff:
	case LimitRate:
		if !(o.Rate >= 1e-3 && o.Rate <= 1e9) {
			err = errors.Join(err, fmt.Errorf("fleet: a rate of %v: write one between 0.001 and 1e9 a second", float64(o.Rate)))
		}
		if o.Dependency == Everything {
			err = errors.Join(err, errors.New("fleet: a rate is for one dependency: name it"))
		}
	default:
		err = errors.Join(err, fmt.Errorf("fleet: %q is no action: write %s, %s, %s, %s or %s", string(o.Action), ForceOpen, Disable, Observe, RetriesOff, LimitRate))
	}
	if o.For <= 0 || o.For > MaxOverride {
		err = errors.Join(err, fmt.Errorf("fleet: an override that lasts %s: every override ends, after at most %s", o.For, MaxOverride))
	}
	return err
}

// text says what is wrong with a text that an operator writes.
func text(what, s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return fmt.Errorf("fleet: %s is empty", what)
	case len(s) > maxText:
		return fmt.Errorf("fleet: %s is longer than %d bytes", what, maxText)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("fleet: %s has letters that do not print", what)
	}
	return nil
}

// randomID is short enough to be typed, and is not guessed or met twice among a hundred.
func randomID() string { return strings.ToLower(rand.Text()[:8]) }

// validFleet says what is wrong with the name of a fleet. All stores can hold what it allows.
func validFleet(name string) error {
	ok := len(name) > 0 && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
	if !ok {
		return fmt.Errorf("fleet: %q is no name of a fleet: write letters, digits, hyphens, dots and underscores, 64 at most", name)
	}
	return nil
}
