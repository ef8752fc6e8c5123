package sqlletters

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// A Dialect is what databases disagree about. Use [SQLite] or [Postgres].
type Dialect struct {
	kit    sqlkit.Dialect // its clock is empty if it is this machine's
	text   string         // the type of text that may have any bytes
	float  string
	shard  string // whose counters a transaction uses, so that few wait for each other
	rows   string // keeps the rows that were read from other transactions
	letter string // keeps a letter, which may not be there, from other transactions; ? is its number
	bytes  bool   // text is given as bytes
	aside  string // before a column by which no index is to be chosen, where the database has no statistics
	group  bool   // one writer at a time, and a commit costs a sync: changes share them
	many   bool   // a round trip costs more than what a statement does: one reads and writes many letters
}

var (
	// SQLite is SQLite 3.42 and later. Open it with WAL, synchronous=FULL and a busy timeout, as
	// contrib/sqlitestore/sqliteletters does. Changes that come together share a transaction, and its
	// sync. Its clock is the machine's.
	SQLite = Dialect{kit: sqlkit.Dialect{Name: sqlkit.SQLite.Name, Blob: sqlkit.SQLite.Blob}, text: "text", float: "real", shard: "0", aside: "+", group: true}

	// Postgres is PostgreSQL 11 and later, at isolation level READ COMMITTED. Its clock is that
	// of the server.
	Postgres = Dialect{
		kit: sqlkit.Postgres, text: "bytea", float: "double precision",
		shard: "pg_backend_pid() % 16", rows: " FOR UPDATE", letter: "SELECT pg_advisory_xact_lock(?)", bytes: true, many: true,
	}
)

// str is a text as the driver takes it.
func (d Dialect) str(text string) any {
	if d.bytes {
		return []byte(text)
	}
	return text
}

func (d Dialect) id(id deadletter.ID) any { return d.str(string(id)) }

// The tables. Times are nanoseconds since 1970, zero for none; states, resolutions and
// outcomes are the numbers of package deadletter. The columns with many bytes come last, so that lists need not read over them.
//
// In tables of version 1 a redrive had rows of its letters, which had a state of their own: they wait again.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS {t} (
	id {text} PRIMARY KEY, grp {text} NOT NULL, source {text} NOT NULL, reason {text} NOT NULL, ord {text} NOT NULL,
	state integer NOT NULL, held integer NOT NULL, kept bigint NOT NULL, since bigint NOT NULL,
	token bigint NOT NULL, until bigint NOT NULL, redriven integer NOT NULL, resolved integer NOT NULL, drive {text} NOT NULL, bytes bigint NOT NULL,
	attempts integer NOT NULL, first bigint NOT NULL, last bigint NOT NULL, key {text} NOT NULL, position {text} NOT NULL,
	by_whom {text} NOT NULL, note {text} NOT NULL, newest {text} NOT NULL, headers {text} NOT NULL, failures {text} NOT NULL, payload {blob} NOT NULL
)`,
	`CREATE TABLE IF NOT EXISTS {t}_counts (
	grp {text} NOT NULL, state integer NOT NULL, reason {text} NOT NULL, held integer NOT NULL, shard integer NOT NULL,
	n bigint NOT NULL, bytes bigint NOT NULL, PRIMARY KEY (grp, state, reason, held, shard)
)`,
	`DROP TABLE IF EXISTS {t}_drives`,
	`DROP INDEX IF EXISTS {s}{index}_ordered`, `DROP INDEX IF EXISTS {s}{index}_taken`, `DROP INDEX IF EXISTS {s}{index}_busy`, `DROP INDEX IF EXISTS {s}{index}_over`,
	`UPDATE {t} SET state = state - 1 WHERE state > 0`,
	`DELETE FROM {t}_counts WHERE state < 253`,
	`INSERT INTO {t}_counts (grp, state, reason, held, shard, n, bytes) SELECT grp, state, reason, held, 0, count(*), sum(bytes) FROM {t} GROUP BY grp, state, reason, held`,
	`CREATE INDEX IF NOT EXISTS {index}_kept ON {t} (state, kept, id)`,
	`CREATE INDEX IF NOT EXISTS {index}_group ON {t} (grp, state, kept, id)`,
	`CREATE INDEX IF NOT EXISTS {index}_reason ON {t} (state, reason, kept, id)`,
	`CREATE INDEX IF NOT EXISTS {index}_taken ON {t} (grp, until) WHERE state = 1`,
	`CREATE INDEX IF NOT EXISTS {index}_over ON {t} (since) WHERE state >= 2`,
	`CREATE TABLE IF NOT EXISTS {t}_failures (id {text} PRIMARY KEY, last bigint NOT NULL, failures {text} NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS {index}_failures_last ON {t}_failures (last)`,
	`CREATE TABLE IF NOT EXISTS {t}_redrives (
	grp {text} PRIMARY KEY, id {text} NOT NULL, query {text} NOT NULL, rate {float} NOT NULL, by_whom {text} NOT NULL, made bigint NOT NULL,
	state integer NOT NULL, why {text} NOT NULL, total bigint NOT NULL, done bigint NOT NULL, failed bigint NOT NULL,
	next bigint NOT NULL, passed bigint NOT NULL, outcomes bigint NOT NULL, holder bigint NOT NULL, seen bigint NOT NULL
)`,
}

// Rows of counts that are of no state: of all letters together, of how many a group ever
// had, and of the messages that failed and are no letters.
const (
	countAll   = 255
	countPut   = 254
	countNotes = 253
)

// versions are the changes of the tables, from each version to the next. The last makes them too.
var versions = [][]string{nil, schema}

// columns of a letter, without its payload and all failures but the newest.
const columns = `id, grp, source, reason, ord, state, kept, since, token, until, redriven, resolved, drive, attempts, first, last, key, position, by_whom, note, newest, headers`

const courseColumns = `id, grp, query, rate, by_whom, made, state, why, total, done, failed, next, passed, outcomes, holder, seen`

// statements of one table, written out, by what they are about.
type statements struct {
	fill    func(string) string
	schema  schemaTexts
	letter  letterTexts
	note    noteTexts
	course  courseTexts
	counter counterTexts
	bound   boundTexts
	list    listTexts
}

// schemaTexts read and write the version of the tables.
type schemaTexts struct {
	table, lock, read, begin, set string
}

// part is how many letters one transaction changes of many.
const part = 500

func (d Dialect) statements(table string) (statements, error) {
	fill, err := d.filler(table)
	if err != nil {
		return statements{}, err
	}
	return statements{
		fill: fill,
		schema: schemaTexts{
			table: fill(`CREATE TABLE IF NOT EXISTS {t}_schema (one integer PRIMARY KEY, version integer NOT NULL)`),
			lock:  fill(`UPDATE {t}_schema SET version = version WHERE one = 1`),
			read:  fill(`SELECT version FROM {t}_schema WHERE one = 1`),
			begin: fill(`INSERT INTO {t}_schema (one, version) VALUES (1, 0) ON CONFLICT (one) DO UPDATE SET version = {t}_schema.version`),
			set:   fill(`UPDATE {t}_schema SET version = ? WHERE one = 1`),
		},
		letter:  letterStatements(fill, d.kit.Bind(d.letter)),
		note:    noteStatements(fill),
		course:  courseStatements(fill),
		counter: counterStatements(fill),
		bound:   boundStatements(fill),
		list:    listStatements(fill),
	}, nil
}

// often are the statements that SQLite has prepared.
func (s *statements) often() []string {
	return []string{
		s.counter.head, s.letter.read, s.letter.insert, s.letter.update, s.note.read, s.note.write, s.note.remove, s.course.read, s.course.update,
		s.course.taken, s.counter.add,
	}
}

// maxTable leaves room for what names of tables and indexes have behind it.
const maxTable = 40

// filler returns what fills and binds texts for a table. Texts with {where} are bound later.
func (d Dialect) filler(table string) (func(string) string, error) {
	r, err := d.kit.Filler(table, maxTable, "{t}", table, "{s}", table[:strings.LastIndexByte(table, '.')+1], "{text}", d.text, "{float}", d.float,
		"{now}", cmp.Or(d.kit.Now, "0"), "{shard}", d.shard, "{rows}", d.rows, "{part}", "LIMIT "+strconv.Itoa(part), "{columns}", columns, "{course}", courseColumns)
	return func(text string) string {
		text = r(text)
		if strings.Contains(text, "{where}") {
			return text
		}
		return d.kit.Bind(text)
	}, err
}
