package sqlletters

import (
	"strings"

	"github.com/gabion-go/gabion/messages/deadletter"
)

// mostRows is how many letters one statement reads or writes, where a round trip costs more
// than what a statement does.
const mostRows = 64

// updated are the columns that may change while the message stays the same, and their types, in
// the order of updateValues. The last one says which letter.
var updated = [...][2]string{
	{"reason", "{text}"}, {"state", "integer"}, {"kept", "bigint"}, {"since", "bigint"}, {"token", "bigint"}, {"until", "bigint"},
	{"redriven", "integer"}, {"resolved", "integer"}, {"drive", "{text}"}, {"attempts", "integer"}, {"first", "bigint"}, {"last", "bigint"},
	{"by_whom", "{text}"}, {"note", "{text}"}, {"newest", "{text}"}, {"failures", "{text}"}, {"held", "integer"}, {"bytes", "bigint"},
	{"id", "{text}"},
}

// updates is the statement that updates one letter, and returns that for n of them.
func updates(n int) string {
	var set, names, typed []string
	for _, c := range updated {
		value := "?"
		if n > 1 {
			value = "v." + c[0]
		}
		set, names, typed = append(set, c[0]+" = "+value), append(names, c[0]), append(typed, "CAST(? AS "+c[1]+")")
	}
	which := len(updated) - 1
	if n == 1 {
		return "UPDATE {t} SET " + strings.Join(set[:which], ", ") + " WHERE " + set[which]
	}
	return "UPDATE {t} AS l SET " + strings.Join(set[:which], ", ") + " FROM (VALUES (" + strings.Join(typed, ", ") + ")" +
		strings.Repeat(", ("+marks(len(updated))+")", n-1) + ") AS v (" + strings.Join(names, ", ") + ") WHERE l.id = v.id"
}

// counts is the statement that adds to n counters.
func counts(n int) string {
	row := "(" + marks(7) + ")"
	return "INSERT INTO {t}_counts (grp, state, reason, held, shard, n, bytes) VALUES " + row + strings.Repeat(", "+row, n-1) +
		" ON CONFLICT (grp, state, reason, held, shard) DO UPDATE SET n = {t}_counts.n + excluded.n, bytes = {t}_counts.bytes + excluded.bytes"
}

// marks are n placeholders.
func marks(n int) string { return "?" + strings.Repeat(", ?", n-1) }

// rows is how many rows one statement has at most.
func (t *tx) rows() int {
	if t.dialect.many {
		return mostRows
	}
	return 1
}

// padded repeats the last of several until their number is a power of two, so that there are few
// texts for the server to prepare. To say one thing twice in a statement changes nothing.
func padded[T any](all []T) []T {
	for len(all)&(len(all)-1) != 0 {
		all = append(all, all[len(all)-1])
	}
	return all
}

// write writes the letters that were changed. All that reads letters calls it before.
func (t *tx) write() error {
	if len(t.changed) == 0 {
		return nil
	}
	all := padded(t.changed)
	t.changed = nil
	text := t.sql.letter.update
	if len(all) > 1 {
		text = t.sql.fill(updates(len(all)))
	}
	args := make([]any, 0, len(all)*len(updated))
	for i := range all {
		args = append(args, t.dialect.updateValues(&all[i])...)
	}
	_, err := t.q.ExecContext(t, text, args...)
	return err
}

// loadAll reads letters to change them. Those that are not there are missing.
func (t *tx) loadAll(ids []deadletter.ID) (map[deadletter.ID]deadletter.Stored, error) {
	found := make(map[deadletter.ID]deadletter.Stored, len(ids))
	if len(ids) < 2 || !t.dialect.many {
		for _, id := range ids {
			r, err := t.load(id)
			if err != nil {
				return nil, err
			}
			found[id] = r
		}
		return found, nil
	}
	ids = padded(ids)
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = t.dialect.id(id)
	}
	all, err := t.records(true, t.sql.fill("SELECT {columns}, failures, payload FROM {t} WHERE id IN ("+marks(len(ids))+") ORDER BY id{rows}"), args...)
	for _, r := range all {
		found[r.ID] = r
	}
	return found, err
}

// records reads letters, whole or without failures and payloads.
func (t *tx) records(whole bool, text string, args ...any) (all []deadletter.Stored, err error) {
	if err := t.write(); err != nil {
		return nil, err
	}
	rows, err := t.q.QueryContext(t, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := readLetter(rows, whole)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}
