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

// statements of one table, written out.
type statements struct {
	fill                                                   func(string) string
	lock, schemaTable, version, beginVersion, setVersion   string
	head, letterLock, selectOne, insert, update, remove    string
	selectNote, insertNote, deleteNote                     string
	selectCourse, namedCourse, orderCourse, updateCourse   string
	listCourses, sweepCourses, taken                       string
	count, stats, oldest, groups                           string
	sweepOver, sweepNotes, makeRoom, longest, removeOld    string
	oldestNotes, countNotes, pickSome, countSome, listSome string
	counted, tally, newest, waiting                        string
}

// part is how many letters one transaction changes of many.
const part = 500

func (d Dialect) statements(table string) (statements, error) {
	fill, err := d.filler(table)
	if err != nil {
		return statements{}, err
	}
	const gone = " RETURNING grp, state, reason, held, bytes"
	return statements{
		fill: fill,

		lock:         fill(`UPDATE {t}_schema SET version = version WHERE one = 1`),
		schemaTable:  fill(`CREATE TABLE IF NOT EXISTS {t}_schema (one integer PRIMARY KEY, version integer NOT NULL)`),
		version:      fill(`SELECT version FROM {t}_schema WHERE one = 1`),
		beginVersion: fill(`INSERT INTO {t}_schema (one, version) VALUES (1, 0) ON CONFLICT (one) DO UPDATE SET version = {t}_schema.version`),
		setVersion:   fill(`UPDATE {t}_schema SET version = ? WHERE one = 1`),

		head: fill(`SELECT version, {now}, {shard}, (SELECT coalesce(sum(n), 0) FROM {t}_counts WHERE grp = ? AND state = 255),
			(SELECT coalesce(sum(bytes), 0) FROM {t}_counts WHERE grp = ? AND state = 255) FROM {t}_schema WHERE one = 1`),
		letterLock: d.kit.Bind(d.letter),
		selectOne:  fill(`SELECT {columns}, failures, payload FROM {t} WHERE id = ?{rows}`),
		insert: fill(`INSERT INTO {t} ({columns}, failures, payload, held, bytes)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		update: fill(updates(1)),
		remove: fill(`DELETE FROM {t} WHERE id = ?`),

		selectNote: fill(`SELECT failures FROM {t}_failures WHERE id = ?{rows}`),
		insertNote: fill(`INSERT INTO {t}_failures (id, last, failures) VALUES (?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET last = excluded.last, failures = excluded.failures`),
		deleteNote: fill(`DELETE FROM {t}_failures WHERE id = ?`),

		selectCourse: fill(`SELECT {course} FROM {t}_redrives WHERE grp = ?{rows}`),
		namedCourse:  fill(`SELECT {course} FROM {t}_redrives WHERE id = ?{rows}`),
		orderCourse: fill(`INSERT INTO {t}_redrives ({course}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (grp) DO UPDATE SET
			id = excluded.id, query = excluded.query, rate = excluded.rate, by_whom = excluded.by_whom, made = excluded.made, state = excluded.state, why = excluded.why,
			total = excluded.total, done = excluded.done, failed = excluded.failed, next = excluded.next, passed = excluded.passed, outcomes = excluded.outcomes,
			holder = excluded.holder, seen = excluded.seen WHERE {t}_redrives.state <> 0 OR {t}_redrives.done + {t}_redrives.failed >= {t}_redrives.total`),
		updateCourse: fill(`UPDATE {t}_redrives SET state = ?, why = ?, done = ?, failed = ?, next = ?, passed = ?, outcomes = ?, holder = ?, seen = ? WHERE id = ?`),
		listCourses:  fill(`SELECT {course} FROM {t}_redrives WHERE grp = ? OR ? = 1 ORDER BY made DESC, id DESC LIMIT 1000`),
		sweepCourses: fill(`DELETE FROM {t}_redrives WHERE made < ? AND state <> 0`),
		taken:        fill(`SELECT {columns} FROM {t} WHERE grp = ? AND state = 1 ORDER BY until LIMIT ?`),

		count:  fill(counts(1)),
		stats:  fill(`SELECT state, reason, held, sum(n), sum(bytes) FROM {t}_counts WHERE (grp = ? OR ? = 1) AND state NOT IN (253, 255) GROUP BY state, reason, held ORDER BY state, reason, held`),
		groups: fill(`SELECT DISTINCT grp FROM {t}_counts WHERE state = 254 ORDER BY grp`),

		sweepOver:   fill(`DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE state >= 2 AND since < ? {part}{rows})` + gone),
		sweepNotes:  fill(`DELETE FROM {t}_failures WHERE id IN (SELECT id FROM {t}_failures WHERE last < ? {part}{rows}) RETURNING last`),
		makeRoom:    fill(`DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE state >= 2 AND id <> ? ORDER BY since LIMIT ?{rows})` + gone),
		longest:     fill(`SELECT grp, bytes, kept, id FROM {t} WHERE state = 0 ORDER BY kept, id LIMIT ` + strconv.Itoa(told)),
		waiting:     fill(`SELECT coalesce(sum(n), 0), coalesce(sum(bytes), 0) FROM {t}_counts WHERE state = 0`),
		removeOld:   fill(`DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE state = 0 AND kept <= ? AND (kept < ? OR id <= ?) ORDER BY kept, id LIMIT ?{rows})` + gone),
		countNotes:  fill(`SELECT coalesce(sum(n), 0) FROM {t}_counts WHERE grp = ? AND state = 253`),
		oldestNotes: fill(`DELETE FROM {t}_failures WHERE id IN (SELECT id FROM {t}_failures ORDER BY last LIMIT ?)`),
		pickSome:    fill(`SELECT id, kept, ord, newest FROM {t} WHERE {where} ORDER BY kept, id LIMIT ?`),
		countSome:   fill(`SELECT count(*) FROM {t} WHERE {where}`),
		listSome:    fill(`SELECT {columns} FROM {t} WHERE {where} ORDER BY kept, id LIMIT ?`),
		counted:     fill(`SELECT grp, state, reason, held, sum(n) AS n FROM {t}_counts WHERE {where} GROUP BY grp, state, reason, held`),
		tally:       fill(`SELECT grp, state, reason, held, count(*) AS n FROM {t} WHERE {where} GROUP BY grp, state, reason, held`),
		oldest:      fill(`SELECT min(kept) FROM {t} WHERE {where}`),
		newest:      fill(`SELECT max(kept) AS kept FROM {t} WHERE {where}`),
	}, nil
}

// often are the statements that SQLite has prepared.
func (s *statements) often() []string {
	return []string{
		s.head, s.selectOne, s.insert, s.update, s.selectNote, s.insertNote, s.deleteNote, s.selectCourse, s.updateCourse,
		s.taken, s.count,
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
