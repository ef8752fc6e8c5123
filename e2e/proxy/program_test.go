package proxy

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// roles are the programs that this test binary can be.
var roles = map[string]func(args []string) int{"plain": plainProgram, "transactional": transactionalProgram, "caller": caller}

// dither is the time that work takes before and after its effect, so that kills meet both.
func dither() { time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond) }

// plainProgram knows nothing of gabion or of keys: each order that it gets is a line in the
// witness, written at once by one write. Its arguments are an address and the witness.
func plainProgram(args []string) int {
	witness, err := os.OpenFile(args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	return fail(http.ListenAndServe(args[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order, err := io.ReadAll(r.Body)
		if err != nil || len(order) == 0 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		dither()
		if _, err := fmt.Fprintf(witness, "%s\n", order); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		dither()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "done %s", order)
	})))
}

// transactionalProgram takes the header of the key into the transaction of its effect. Its
// arguments are an address and a file of SQLite.
func transactionalProgram(args []string) int {
	db, err := sql.Open("sqlite", "file:"+args[1]+"?_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return fail(err)
	}
	for _, table := range []string{"keys (name text PRIMARY KEY)", "effects (name text)"} {
		if _, err := db.Exec("CREATE TABLE IF NOT EXISTS " + table); err != nil {
			return fail(err)
		}
	}
	return fail(http.ListenAndServe(args[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order, err := io.ReadAll(r.Body)
		if err == nil {
			dither()
			err = record(db, r.Header.Get("Idempotency-Key"), string(order))
			dither()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "done %s", order)
	})))
}

// caller calls a URL once at SIGTERM, as a program does that settles its work, and tells by its exit code
// whether it got an answer. Its arguments are an address, at which it shows that it runs, and the URL.
func caller(args []string) int {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	<-told
	resp, err := http.Get(args[1])
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fail(errors.New(resp.Status))
	}
	return 0
}

// record is what such a program writes: one transaction for the key and the effect.
func record(db *sql.DB, key, order string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = tx.Exec("INSERT INTO keys VALUES (?)", key)
	if err != nil && strings.Contains(err.Error(), "UNIQUE") {
		return nil // it was done before
	}
	if err == nil {
		_, err = tx.Exec("INSERT INTO effects VALUES (?)", order)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
