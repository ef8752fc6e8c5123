package operator

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"golang.org/x/term"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/gabion-go/gabion/internal/sqlkit"
)

// connectTime bounds how long a database may take to say that it is there.
const connectTime = 15 * time.Second

// LockTime is how long SQLite waits for another process that writes. Tests set it.
var LockTime = 5 * time.Second

// SQL opens a store in the database of a --store: sqlite:PATH, of a file that has to be there, or
// postgres://... It makes no file. Lost says what to give in place of a file that is not there. Open
// makes the store, and looks whether the database has it; its driver is sqlite or pgx.
func SQL[S any](ctx context.Context, store, lost string, open func(ctx context.Context, db *sql.DB, driver string) (S, error)) (s S, stop func(), err error) {
	kind, file, _ := strings.Cut(store, ":")
	switch kind {
	case "sqlite":
		if file == "" {
			return s, nil, Wrongf("--store names no file: it is sqlite:PATH")
		}
		if err := Regular(file); errors.Is(err, os.ErrNotExist) {
			return s, nil, fmt.Errorf("%w: %s", err, lost)
		} else if err != nil {
			return s, nil, err
		}
		s, stop, err = opened(ctx, "sqlite", SQLite(file, fmt.Sprintf("mode=rw&_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(FULL)", LockTime.Milliseconds())), open)
		if sqlkit.AtRest(file, err) {
			return opened(ctx, "sqlite", SQLite(file, sqlkit.Resting), open)
		}
		return s, stop, err
	case "postgres", "postgresql":
		if err := URL(store); err != nil {
			return s, nil, err
		}
		return opened(ctx, "pgx", store, open)
	}
	return s, nil, Wrongf("--store begins with sqlite: or postgres://")
}

func opened[S any](ctx context.Context, driver, dsn string, open func(context.Context, *sql.DB, string) (S, error)) (s S, stop func(), err error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return s, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if s, err = open(limited, db, driver); err != nil {
		db.Close()
		return s, nil, err
	}
	return s, func() { db.Close() }, nil
}

// Confirm asks the person at the terminal, and reports whether the answer was yes. Where there is no
// terminal it is a usage error that says unattended.
func Confirm(stderr io.Writer, question, unattended string) (yes bool, err error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return false, Wrongf("%s: say --yes if that is meant", unattended)
	}
	fmt.Fprintf(stderr, "%s Type yes: ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	return strings.TrimSpace(answer) == "yes", nil
}

// A Refusal is about what is not as a command needs it.
type Refusal struct{ error }

// Refusef returns a Refusal with that text.
func Refusef(text string, args ...any) error { return Refusal{fmt.Errorf(text, args...)} }

// Unwrap returns the error itself.
func (r Refusal) Unwrap() error { return r.error }
