package fleet

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Pool says who holds what until when. It is one record in the store, which is replaced by compare-and-set.
// Its times are microseconds of the store's clock.
type Pool struct {
	Format  int    `json:"v"`
	Version uint64 `json:"n"`  // which division this is: never that of another one, even after the store lost writes
	At      int64  `json:"at"` // when it was divided, since 1970
	Length  int64  `json:"len"`

	Resources []Resource `json:"res,omitempty"`
	Pods      []Pod      `json:"pods,omitempty"` // in the order of their IDs
	Past      []uint64   `json:"past,omitempty"` // versions of divisions that processes may go by still, oldest first

	Parts int `json:"parts,omitempty"` // in how many parts it is put also: see Split. Zero means in none
	All   int `json:"all,omitempty"`   // of a part: how many processes hold shares in all parts. Zero means that it is the whole pool

	// Known is what the fleet knows. Package fleet computes it from the reports' Facts, and nothing here
	// looks into it.
	Known json.RawMessage `json:"known,omitempty"`
}

// Resource is what a pool says about an amount that is divided.
type Resource struct {
	Name  string  `json:"r"`
	Total float64 `json:"t"`
	Level float64 `json:"lv,omitempty"` // a process that wants more than it has can be given more up to here
	Short bool    `json:"sh,omitempty"` // the processes want more than there is
	Whole bool    `json:"i,omitempty"`
	Since int64   `json:"since,omitempty"` // when it came, as long as processes that have not named it may do so; 0 otherwise
}

// Pod is what a pool says about a process.
type Pod struct {
	ID     string    `json:"id"`
	Count  uint64    `json:"n"`           // the newest report that was seen
	Until  int64     `json:"u"`           // when its shares end, after At; not positive if it is gone
	Shares []float64 `json:"s,omitempty"` // by index of Resources; those left out are zero
	Was    []Was     `json:"w,omitempty"` // what may be in force in it beside the shares
}

// Was is what an earlier division gave a process, and may be in force in it until it reports that it
// goes by a later one.
type Was struct {
	Version  uint64  `json:"n"` // the latest division that gave it
	Resource int     `json:"r"` // index
	Amount   float64 `json:"a"`
	Until    int64   `json:"u"` // after At
}

// Share returns what the pool gives a pod of a resource, by index.
func (p *Pod) Share(resource int) float64 {
	if resource >= len(p.Shares) {
		return 0
	}
	return p.Shares[resource]
}

// Pod returns the process with an ID, or nil. A nil Pool has none.
func (p *Pool) Pod(id string) *Pod {
	if p == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(p.Pods, id, func(pod Pod, id string) int { return strings.Compare(pod.ID, id) })
	if !found {
		return nil
	}
	return &p.Pods[i]
}

// names reports whether the pool has a resource.
func (p *Pool) names(resource string) bool {
	return slices.ContainsFunc(p.Resources, func(r Resource) bool { return r.Name == resource })
}

// Live returns how many processes of the fleet held shares when the pool was divided.
func (p *Pool) Live() (n int) {
	if p == nil {
		return 0
	}
	if p.All > 0 {
		return p.All
	}
	for i := range p.Pods {
		if p.Pods[i].Until > 0 {
			n++
		}
	}
	return n
}

// Age returns how long ago the pool was divided. A nil Pool is older than any.
func (p *Pool) Age(storeNow time.Time) time.Duration {
	if p == nil {
		return math.MaxInt64
	}
	return storeNow.Sub(time.UnixMicro(p.At))
}

// End returns when the shares of pod end, by the store's clock.
func (p *Pool) End(pod *Pod) time.Time { return time.UnixMicro(p.At + pod.Until) }

// Encode returns the record of the pool. The error says that it is too large: the fleet is then larger than
// one pool can serve, and shares run out.
func (p *Pool) Encode() ([]byte, error) { return encode(p) }

// ParsePool reads a record of [Pool.Encode]. Fields that it does not know are ignored. The error is
// [ErrNewer], or says what is wrong; then nobody knows what is in force, and the record must not be replaced.
func ParsePool(b []byte) (*Pool, error) {
	p := new(Pool)
	if err := decode(b, p, &p.Format); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	return p, nil
}

const (
	maxLength = int64(24 * time.Hour / time.Microsecond) // of a lease
	latest    = 1 << 53                                  // the last moment: year 2255, and exact in every reader of JSON
)

// check reports what no [Divide] makes, so that nothing else has to be afraid of it.
func (p *Pool) check() error {
	switch {
	case p.At < 0 || p.At > latest:
		return errors.New("divided at an impossible time")
	case p.Length <= 0 || p.Length > maxLength:
		return errors.New("leases of an impossible length")
	case len(p.Resources) > MaxResources || len(p.Pods) > MaxPods || len(p.Past) > maxPast || p.Parts < 0 || p.Parts > maxParts || p.All < 0 || p.All > MaxPods:
		return errors.New("more than its bounds")
	}
	for i := range p.Resources {
		if r := &p.Resources[i]; !validName(r.Name) || r.Total < 0 || r.Level < 0 {
			return fmt.Errorf("resource %d makes no sense", i)
		}
	}
	for i := range p.Pods {
		if i > 0 && p.Pods[i-1].ID >= p.Pods[i].ID {
			return errors.New("processes are not in order")
		}
		if !p.Pods[i].sound(len(p.Resources)) {
			return fmt.Errorf("process %d makes no sense", i)
		}
	}
	return nil
}

func (p *Pod) sound(resources int) bool {
	if !validName(p.ID) || p.Until < -latest || p.Until > maxLength || len(p.Shares) > resources || len(p.Was) > resources*maxWas {
		return false
	}
	for _, amount := range p.Shares {
		if amount < 0 {
			return false
		}
	}
	for _, w := range p.Was {
		if w.Amount < 0 || w.Resource < 0 || w.Resource >= resources || w.Until < -latest || w.Until > maxLength {
			return false
		}
	}
	return true
}

const (
	small    = 4 << 10        // records that are not worth compressing, and are easier to read as they are
	inflated = 16 * MaxRecord // the most that a record may have in it
)

// encode makes JSON of a record, compressed if it is large: a thousand processes read the pool
// three times in the length of a lease.
func encode(record any) ([]byte, error) {
	b, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	if len(b) > inflated {
		return nil, errTooLarge
	}
	if len(b) > small {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level exists
		if _, err := z.Write(b); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		b = out.Bytes()
	}
	if len(b) > MaxRecord {
		return nil, errTooLarge
	}
	return b, nil
}

// decode fills record, whose field version is.
func decode(b []byte, record any, version *int) error {
	if len(b) > MaxRecord {
		return errTooLarge
	}
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return err
		}
		if b, err = io.ReadAll(io.LimitReader(z, inflated+1)); err != nil {
			return err
		}
		if len(b) > inflated {
			return errTooLarge
		}
	}
	// The version first: a newer format may have other types.
	var of struct {
		Format int `json:"v"`
	}
	if err := json.Unmarshal(b, &of); err != nil {
		return err
	}
	switch {
	case of.Format > format:
		return fmt.Errorf("%w: %d, and this one %d", ErrNewer, of.Format, format)
	case of.Format < 1:
		return errors.New("no format is given")
	}
	err := json.Unmarshal(b, record)
	*version = of.Format
	return err
}
