package crash

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
)

// witnessLine is the size of a line of the witness, which is written by one
// write(2) to a file opened for appending: no two lines mix, and a killed process
// leaves a whole line or none.
const witnessLine = 128

// A witness is a server's way to leave effects.
type witness struct{ file *os.File }

func openWitness(name string) (*witness, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &witness{f}, err
}

func (w *witness) write(e Effect) error {
	text := fmt.Sprintf("%s %d %d %s %d", e.Name, e.Token, e.Attempt, e.Part, e.Amount)
	_, err := fmt.Fprintf(w.file, "%-*s\n", witnessLine-1, text)
	return err
}

// readWitness returns all effects that servers left in the file.
func readWitness(name string) (all []Effect, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(text)%witnessLine != 0 {
		return nil, fmt.Errorf("%s has %d bytes, which is no number of lines", name, len(text))
	}
	for line := range strings.Lines(string(text)) {
		var e Effect
		if _, err := fmt.Sscan(line, &e.Name, &e.Token, &e.Attempt, &e.Part, &e.Amount); err != nil {
			return nil, fmt.Errorf("%s: %w in %q", name, err, line)
		}
		all = append(all, e)
	}
	return all, nil
}

// effectsTable is the witness of transactions.
const effectsTable = `CREATE TABLE IF NOT EXISTS effects (name text NOT NULL, token bigint NOT NULL, attempt bigint NOT NULL, part text NOT NULL, amount bigint NOT NULL)`

// insertEffect has no placeholders, because databases disagree about them; names
// are made by the rig and have no quotes.
func insertEffect(ctx context.Context, to *sql.Tx, e Effect) error {
	_, err := to.ExecContext(ctx, fmt.Sprintf("INSERT INTO effects VALUES ('%s', %d, %d, '%s', %d)", e.Name, e.Token, e.Attempt, e.Part, e.Amount))
	return err
}

// readEffects returns all effects that were committed.
func readEffects(ctx context.Context, db *sql.DB) (all []Effect, err error) {
	rows, err := db.QueryContext(ctx, "SELECT name, token, attempt, part, amount FROM effects")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e Effect
		if err := rows.Scan(&e.Name, &e.Token, &e.Attempt, &e.Part, &e.Amount); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}
