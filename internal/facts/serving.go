package facts

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
)

// Route is what a file says of one route that the program serves, or of the messages that
// it takes: how repeated requests are made harmless there, in the words of package
// idempotency. Zero means that nothing is said, or that package's default.
type Route struct {
	// Key says whether requests need an idempotency key: required, optional or none.
	// Zero means required where guarantee or store is said, else nothing is said.
	Key KeyUse

	// Guarantee says what may happen to a run that was lost: tx, hold or reexecute.
	// Zero means that the program does not say it either, and has hold.
	Guarantee Guarantee

	// Store is the name under facts.stores of where records are kept.
	Store string

	// Retention is how long a result is replayed. Zero means 24 h.
	Retention time.Duration

	// Lease is how long a run may be silent before it counts as lost. Zero means 30 s.
	Lease time.Duration

	// NoHeartbeat says that nothing extends the lease while the work runs. Package
	// idempotency extends it.
	NoHeartbeat bool

	// MaxExecution is how long a run may take. Zero means 5 min.
	MaxExecution time.Duration

	// Scope says within what a key is unique, such as tenant. One that is global, or *,
	// is shared by all callers.
	Scope string

	// Fail says what happens while the store does not answer: closed refuses requests,
	// open runs them unprotected. Zero means closed.
	Fail Fail

	// P999 is the 99.9th percentile of how long the work takes.
	P999 time.Duration

	// Streaming says that answers are streamed, or have no end.
	Streaming bool

	// Compression says where answers are compressed: outside of the handler that keeps
	// keys, or inside.
	Compression Side

	// Tags are words about the route, such as payment.
	Tags []string

	// Clients is what callers do that have no file here.
	Clients ClientFacts
}

// ClientFacts is what callers do whose policies are not known. Zero means that nothing is
// said.
type ClientFacts struct {
	// Attempts is how many attempts they make; 1 means that they never repeat a request.
	Attempts int

	// Horizon is how long after the first attempt the last one may come.
	Horizon time.Duration

	// ServerErrors says that they repeat requests after answers with a status of 500 and
	// above.
	ServerErrors bool
}

// Store is what a file says of a store of idempotency records: its settings in the words of
// its server. Zero means that nothing is said.
type Store struct {
	// Kind is the sort of store: memory, bolt, sqlite, postgres, mysql, redis, nats or
	// other.
	Kind StoreKind

	// MaxmemoryPolicy is what Redis does when its memory is full. It has to be noeviction.
	MaxmemoryPolicy string

	// Appendonly says whether Redis has an append-only file: yes or no.
	Appendonly string

	// Appendfsync says when Redis syncs that file: always, everysec or no.
	Appendfsync string

	// Ring says that the client spreads keys over servers by itself, as redis.Ring does.
	Ring bool

	// SyncInterval is that of NATS servers: always, or a time.
	SyncInterval string

	// Replicas is how many replicas a bucket of NATS has.
	Replicas int
}

// Guarantee is a word for what may happen to a run that was lost; see package idempotency.
type Guarantee string

// The guarantees.
const (
	GuaranteeTx        Guarantee = "tx"
	GuaranteeHold      Guarantee = "hold"
	GuaranteeReexecute Guarantee = "reexecute"
)

// KeyUse is a word for whether a route's requests have idempotency keys.
type KeyUse string

// Whether requests have keys.
const (
	KeyUseRequired KeyUse = "required"
	KeyUseOptional KeyUse = "optional"
	KeyUseNone     KeyUse = "none"
)

// Fail is a word for what a route does while its store does not answer.
type Fail string

// What a route does while its store does not answer.
const (
	FailOpen   Fail = "open"
	FailClosed Fail = "closed"
)

// Side is a word for where something is done: inside or outside of the handler that keeps
// keys.
type Side string

// The sides.
const (
	SideInside  Side = "inside"
	SideOutside Side = "outside"
)

// StoreKind is a word for a sort of store.
type StoreKind string

// The sorts of stores.
const (
	StoreMemory   StoreKind = "memory"
	StoreBolt     StoreKind = "bolt"
	StoreSQLite   StoreKind = "sqlite"
	StorePostgres StoreKind = "postgres"
	StoreMySQL    StoreKind = "mysql"
	StoreRedis    StoreKind = "redis"
	StoreNATS     StoreKind = "nats"
	StoreOther    StoreKind = "other"
)

// UnmarshalText reads a word; on an error g stays as it was.
func (g *Guarantee) UnmarshalText(text []byte) error { return readWord(g, text) }

// UnmarshalText reads a word; on an error k stays as it was.
func (k *KeyUse) UnmarshalText(text []byte) error { return readWord(k, text) }

// UnmarshalText reads a word; on an error f stays as it was.
func (f *Fail) UnmarshalText(text []byte) error { return readWord(f, text) }

// UnmarshalText reads a word; on an error s stays as it was.
func (s *Side) UnmarshalText(text []byte) error { return readWord(s, text) }

// UnmarshalText reads a word; on an error k stays as it was.
func (k *StoreKind) UnmarshalText(text []byte) error { return readWord(k, text) }

// Words are the words of each type that has a few of them.
var Words = map[reflect.Type][]string{
	reflect.TypeFor[Guarantee](): {"tx", "hold", "reexecute"},
	reflect.TypeFor[KeyUse]():    {"required", "optional", "none"},
	reflect.TypeFor[Fail]():      {"open", "closed"},
	reflect.TypeFor[Side]():      {"inside", "outside"},
	reflect.TypeFor[StoreKind](): {"memory", "bolt", "sqlite", "postgres", "mysql", "redis", "nats", "other"},
}

func readWord[W ~string](w *W, text []byte) error {
	all := Words[reflect.TypeFor[W]()]
	if !slices.Contains(all, string(text)) {
		return &terms.TextError{Text: string(text), Problem: "is not known", Proposal: "use one of " + strings.Join(all, ", ")}
	}
	*w = W(text)
	return nil
}
