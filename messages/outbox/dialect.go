package outbox

import (
	"fmt"
	"strconv"

	"github.com/gabion-go/gabion/internal/sqlkit"
)

// A Dialect is what databases disagree about. Use [Postgres] or [SQLite]. The zero Dialect
// is an error of [New].
type Dialect struct {
	kit      sqlkit.Dialect
	serial   string // the type of the column that numbers rows in the order of their insertion
	list     string // a query: the numbers in the text ?
	brackets string // what stands around that text
	inOrder  string // what makes the database read rows by the index that has their order; empty where it does
	locks    bool   // transactions commit in another order than they insert, unless they lock
}

var (
	// Postgres is PostgreSQL 11 and later, with any driver for database/sql.
	Postgres = Dialect{
		kit: sqlkit.Postgres, serial: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		list: "SELECT unnest(string_to_array(?, ',')::bigint[])", locks: true,
		// Statistics of a table that mostly is empty know of no backlog, and without them it would sort all of it.
		inOrder: "SELECT set_config('enable_sort', 'off', true)",
	}

	// SQLite is SQLite 3.42 and later. Open it with a busy timeout, WAL and
	// synchronous=FULL, as contrib/sqlitestore does.
	SQLite = Dialect{
		kit: sqlkit.SQLite, serial: "integer PRIMARY KEY AUTOINCREMENT",
		list: "SELECT value FROM json_each(?)", brackets: "[]",
	}
)

// version is that of the tables. Those with a larger one are a newer program's.
const version = 1

// A row is in one of these states:
//
//	0  to be published
//	1  published, and kept for a while, for its id
//	2  set aside: to be published when it is due, or parked if due is zero
//	3  to be published after one of its aggregate that is set aside
//
// Texts, with what fill fills in. Times are nanoseconds since 1970. The table of the relay
// has one row, whose lock orders what its leader and operators do.
const (
	createTable = `CREATE TABLE IF NOT EXISTS {table} (
	seq {serial},
	id text NOT NULL UNIQUE,
	topic text NOT NULL,
	aggregate text NOT NULL,
	payload {blob} NOT NULL,
	headers {blob} NOT NULL,
	created bigint NOT NULL,
	state integer NOT NULL DEFAULT 0,
	due bigint NOT NULL DEFAULT 0,
	attempts integer NOT NULL DEFAULT 0,
	failure text NOT NULL DEFAULT ''
)`
	indexWaiting = `CREATE INDEX IF NOT EXISTS {index}_waiting ON {table} (seq) WHERE state = 0`
	indexOrder   = `CREATE INDEX IF NOT EXISTS {index}_order ON {table} (aggregate, state)` // not by state: it would be taken in place of the first
	indexKept    = `CREATE INDEX IF NOT EXISTS {index}_kept ON {table} (due) WHERE state = 1`
	indexAside   = `CREATE INDEX IF NOT EXISTS {index}_aside ON {table} (seq) WHERE state = 2`
	indexBehind  = `CREATE INDEX IF NOT EXISTS {index}_behind ON {table} (aggregate) WHERE state = 3`
	createRelay  = `CREATE TABLE IF NOT EXISTS {relay} (
	id integer PRIMARY KEY,
	version integer NOT NULL,
	token bigint NOT NULL,
	owner text NOT NULL,
	until bigint NOT NULL,
	changes bigint NOT NULL
)`
	insertRelay   = `INSERT INTO {relay} (id, version, token, owner, until, changes) VALUES (1, {version}, 0, '', 0, 0) ON CONFLICT (id) DO NOTHING`
	selectVersion = `SELECT version FROM {relay} WHERE id = 1`

	// A token is never that of another lease, also where a replica took over that does not know the last ones.
	acquire = `UPDATE {relay} SET token = CASE WHEN token < {now} THEN {now} ELSE token + 1 END, owner = ?, until = {now} + ? WHERE id = 1 AND (until <= {now} OR until > {now} + ?) RETURNING token`
	left    = `SELECT version, until - {now} FROM {relay} WHERE id = 1`
	renew   = `UPDATE {relay} SET until = {now} + ? WHERE id = 1 AND token = ?`
	release = `UPDATE {relay} SET until = 0 WHERE id = 1 AND token = ?`
	lock    = `UPDATE {relay} SET changes = changes + 1 WHERE id = 1`
	fence   = lock + ` AND token = ?`

	selectWaiting = `SELECT seq, id, topic, aggregate, payload, headers, attempts, created FROM {table} w
		WHERE state = 0 AND (aggregate = '' OR NOT EXISTS (SELECT 1 FROM {table} a WHERE a.state = 2 AND a.aggregate = w.aggregate))
		AND seq NOT IN ({list}) ORDER BY seq LIMIT ?`
	deletePublished = `DELETE FROM {table} WHERE seq IN ({list}) AND created <= ?`
	keepPublished   = `UPDATE {table} SET state = 1, due = {now} + ? WHERE seq IN ({list}) AND created <= ?`
	deleteKept      = `DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table} WHERE state = 1 AND due <= {now} ORDER BY due LIMIT ?)`

	setAside    = `UPDATE {table} SET state = 2, due = CASE WHEN CAST(? AS bigint) = 0 THEN 0 ELSE {now} + ? END, attempts = ?, failure = ? WHERE seq = ? AND state = 0`
	anyAside    = `SELECT count(*) FROM (SELECT 1 FROM {table} WHERE state = 2 UNION ALL SELECT 1 FROM {table} WHERE state = 3 LIMIT 1) AS found`
	releaseDue  = `UPDATE {table} SET state = 0 WHERE state = 2 AND due > 0 AND (due <= {now} OR due > {now} + ?)`
	releaseRest = `UPDATE {table} AS o SET state = 0 WHERE state = 3 AND NOT EXISTS (SELECT 1 FROM {table} a WHERE a.state = 2 AND a.aggregate = o.aggregate)`
	holdRest    = `UPDATE {table} SET state = 3 WHERE state = 0 AND aggregate IN (SELECT aggregate FROM {table} WHERE state = 2 AND aggregate <> '')`

	selectParked = `SELECT seq, id, topic, aggregate, {length}(payload), headers, created, attempts, failure,
		(SELECT count(*) FROM {table} b WHERE b.state IN (0, 3) AND b.aggregate = p.aggregate AND p.aggregate <> '')
		FROM {table} p WHERE state = 2 AND due = 0 AND seq > ? ORDER BY seq LIMIT ?`
	retryParked   = `UPDATE {table} SET state = 0, attempts = 0 WHERE id = ? AND state = 2`
	discardParked = `DELETE FROM {table} WHERE id = ? AND state = 2`
	selectStats   = `SELECT {now}, (SELECT count(*) FROM {table} WHERE state = 0) + (SELECT count(*) FROM {table} WHERE state = 3), (SELECT count(*) FROM {table} WHERE state = 2 AND due > 0),
		(SELECT count(*) FROM {table} WHERE state = 2 AND due = 0), COALESCE((SELECT min(created) FROM {table} WHERE state IN (0, 3)), 0), owner, until FROM {relay} WHERE id = 1`
)

// Texts by their use, written out for one table.
type texts struct {
	migrate []string
	insert  func(text string) string // fills what Enqueue makes

	version, acquire, left, renew, release, lock, fence   string
	waiting, deletePublished, keepPublished, deleteKept   string
	setAside, anyAside, releaseDue, releaseRest, holdRest string
	selectParked, retryParked, discardParked, selectStats string
}

// maxTable leaves room for what names of indexes have behind it: PostgreSQL cuts names off
// after 63 characters.
const maxTable = 50

func (d Dialect) texts(table string) (*texts, error) {
	length := "length"
	if d.kit.Dollar {
		length = "octet_length"
	}
	fill, err := d.kit.Filler(table, maxTable,
		"{relay}", table+"_relay", "{serial}", d.serial, "{list}", d.list, "{version}", strconv.Itoa(version), "{length}", length)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	full := func(text string) string { return d.kit.Bind(fill(text)) }
	t := &texts{
		insert:  full,
		version: full(selectVersion), acquire: full(acquire), left: full(left), renew: full(renew), release: full(release), lock: full(lock), fence: full(fence),
		waiting: full(selectWaiting), deletePublished: full(deletePublished), keepPublished: full(keepPublished), deleteKept: full(deleteKept),
		setAside: full(setAside), anyAside: full(anyAside), releaseDue: full(releaseDue), releaseRest: full(releaseRest), holdRest: full(holdRest),
		selectParked: full(selectParked), retryParked: full(retryParked), discardParked: full(discardParked), selectStats: full(selectStats),
	}
	for _, text := range []string{createTable, indexWaiting, indexOrder, indexKept, indexAside, indexBehind, createRelay, insertRelay} {
		t.migrate = append(t.migrate, full(text))
	}
	return t, nil
}

// numbers is the argument of the query list.
func (d Dialect) numbers(seqs []int64) string {
	var b []byte
	for n, seq := range seqs {
		if n > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, seq, 10)
	}
	if d.brackets == "" {
		return string(b)
	}
	return d.brackets[:1] + string(b) + d.brackets[1:]
}
