//go:build upstream

package upstream

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testservers"
)

// pgxPool is the tests of pgx's pool. With gabion they use a package of the same functions,
// whose pools are gabionpgx's.
var pgxPool = Suite{
	Name: "pgxpool",
	Version: func(t *testing.T) string {
		version, _ := module(t, filepath.Join(root(t), "contrib", "gabionpgx"), pgx)
		return "pgx " + version
	},
	Env: func(t *testing.T) []string {
		return []string{"PGX_TEST_DATABASE=" + testservers.Postgres(t)}
	},
	Write: func(t *testing.T, dir string, with bool) (string, []string) {
		adapter := filepath.Join(root(t), "contrib", "gabionpgx")
		version, from := module(t, adapter, pgx)
		pkg := filepath.Join(dir, "pool")
		names := strings.NewReplacer(`"`+pgx+`/internal/`, `"upstream/internal/`)
		if with {
			names = strings.NewReplacer(`"`+pgx+`/internal/`, `"upstream/internal/`, `"`+pgx+`/pgxpool"`, `"upstream/pgxpool"`)
			write(t, filepath.Join(dir, "pgxpool", "pgxpool.go"), poolsOfGabion)
		}
		change := func(_, text string) string { return names.Replace(text) }
		copyGo(t, filepath.Join(from, "pgxpool"), pkg, func(name string) bool {
			return strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "bench")
		}, change)
		copyGo(t, filepath.Join(from, "internal", "pgmock"), filepath.Join(dir, "internal", "pgmock"), func(name string) bool {
			return !strings.HasSuffix(name, "_test.go")
		}, change)
		module := "module upstream\n\ngo 1.26\n\nrequire " + pgx + " " + version + "\n"
		if with {
			module += "require github.com/gabion-go/gabion v0.0.0\nrequire github.com/gabion-go/gabion/contrib/gabionpgx v0.0.0\n" +
				"replace github.com/gabion-go/gabion => " + root(t) + "\nreplace github.com/gabion-go/gabion/messages => " + filepath.Join(root(t), "messages") +
				"\nreplace github.com/gabion-go/gabion/contrib/gabionpgx => " + adapter + "\n"
		}
		write(t, filepath.Join(dir, "go.mod"), module)
		return pkg, nil
	},
}

const pgx = "github.com/jackc/pgx/v5"

// poolsOfGabion is a package pgxpool for the tests. The policy repeats nothing and has no times.
const poolsOfGabion = `package pgxpool

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/policy"
)

type (
	Config           = pgxpool.Config
	Conn             = pgxpool.Conn
	Tx               = pgxpool.Tx
	Stat             = pgxpool.Stat
	ShouldPingParams = pgxpool.ShouldPingParams

	TraceAcquireStartData = pgxpool.TraceAcquireStartData
	TraceAcquireEndData   = pgxpool.TraceAcquireEndData
	TraceReleaseData      = pgxpool.TraceReleaseData
)

var ParseConfig = pgxpool.ParseConfig

type Pool struct{ *gabionpgx.Pool }

func New(ctx context.Context, dsn string) (*Pool, error) {
	c, err := ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	return NewWithConfig(ctx, c)
}

func NewWithConfig(ctx context.Context, c *Config) (*Pool, error) {
	p, err := gabionpgx.Open(ctx, c, gabion.New("pgxpool", policy.Policy{
		Timeout:  policy.Timeout{Attempt: policy.Off, Call: policy.Off},
		Retry:    policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Limit: int(c.MaxConns), Queue: 10_000},
	}))
	if err != nil {
		return nil, err
	}
	return &Pool{p}, nil
}

func (p *Pool) Stat() *Stat { return p.Raw().Stat() }
func (p *Pool) Config() *Config                              { return p.Raw().Config() }
func (p *Pool) Reset()                                       { p.Raw().Reset() }
func (p *Pool) AcquireAllIdle(ctx context.Context) []*Conn   { return p.Raw().AcquireAllIdle(ctx) }

func (p *Pool) AcquireFunc(ctx context.Context, f func(*Conn) error) error {
	c, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	return f(c)
}
`
