package gabionsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/backoff"
)

// WithKill says whether a [Connector] of base kills what a broken connection has left running at
// a server of MySQL or MariaDB. Without it connectors of github.com/go-sql-driver/mysql do, and
// no others: set kill for one that is wrapped in something else.
//
// When a statement's time is over, drivers of MySQL close the connection, and the server goes on
// with the statement all the same. A Connector that kills asks each new connection for its id
// and its server, once. After a connection broke, and was closed, it sends KILL CONNECTION over
// a connection of its own, which is made of base, is closed again, and takes no slot. That ends
// the statement and rolls back its transaction. It is sent to the same server only, and
// not after a restart or through a proxy with ids of its own (ProxySQL, MaxScale). It is tried
// for 30 s, and is not a promise: what it missed runs on.
//
// Do without it where clients may not kill their own connections, where a proxy reads KILL
// in its own way, or where statements write to tables without transactions (MyISAM, Aria), of
// which a part would stay.
func WithKill(base driver.Connector, kill bool) driver.Connector {
	if base == nil {
		return nil
	}
	return kills{base, kill}
}

type kills struct {
	driver.Connector
	on bool
}

// Close implements io.Closer.
func (k kills) Close() error {
	if c, ok := k.Connector.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// killerOf returns who kills what base's connections leave behind, nil if it is not to be done.
func killerOf(base driver.Connector) *killer {
	k, said := base.(kills)
	if on := said && k.on || !said && base != nil && isMySQL(base.Driver()); !on {
		return nil
	}
	return &killer{base: base}
}

func isMySQL(d driver.Driver) bool {
	t := reflect.TypeOf(d)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && t.Name() == "MySQLDriver" && strings.HasSuffix(t.PkgPath(), "github.com/go-sql-driver/mysql")
}

// victim is a connection at its server.
type victim struct {
	id     int64
	server string // what tells it from others
	since  time.Time
	cut    time.Time // when it broke
}

const (
	killTime    = 5 * time.Second  // for one connection that kills
	killFor     = 30 * time.Second // how long it is tried
	killPending = 1024             // victims that wait; more run on
	killGrace   = time.Second      // that Close waits
)

// noConnection is an id that no server has come to: ids are given one after another, from 1.
const noConnection = "4294967295"

var killWaits = backoff.Full(200*time.Millisecond, 5*time.Second)

// killer sends what kills, over one connection at a time.
type killer struct {
	base driver.Connector

	mu      sync.Mutex // guards all below
	pending []victim
	running chan struct{} // closed when the goroutine has ended; nil if none runs
	stop    context.CancelFunc
	closed  bool
}

// meet asks a new connection who it is, which is zero if it does not say. An error means
// that the connection broke.
func (k *killer) meet(ctx context.Context, c driver.Conn, since time.Time) (v victim, err error) {
	row, err := ask(ctx, c, "SELECT CONNECTION_ID(), @@hostname, @@port, @@server_id")
	switch {
	case err != nil && (ctx.Err() != nil || !valid(c)):
		return v, err
	case err != nil || len(row) != 4:
		return v, nil //nolint:nilerr // another server than was said, or one that hides it
	}
	v.id, _ = strconv.ParseInt(row[0], 10, 64)
	v.server, v.since = strings.Join(row[1:], " "), since
	return v, nil
}

// kill is called when the driver has closed a broken connection, so that no other statement can
// follow on it.
func (k *killer) kill(v victim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v.id <= 0 || k.closed || len(k.pending) >= killPending {
		return
	}
	v.cut = time.Now()
	k.pending = append(k.pending, v)
	if k.running == nil {
		ctx, cancel := context.WithCancel(context.Background())
		k.running, k.stop = make(chan struct{}), cancel
		go k.run(ctx, k.running)
	}
}

func (k *killer) run(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	for n := 0; ; n++ {
		all := k.take()
		if len(all) == 0 {
			return
		}
		left := k.try(ctx, all)
		if len(left) == 0 {
			n = 0
			continue
		}
		k.putBack(left)
		timer := time.NewTimer(killWaits.Delay(n, 0, rand.Float64()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// take returns the victims that wait and are not too old. Without any the goroutine ends.
func (k *killer) take() (all []victim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.pending {
		if time.Since(v.cut) < killFor {
			all = append(all, v)
		}
	}
	k.pending = nil
	if len(all) == 0 {
		k.running = nil
		k.stop()
	}
	return all
}

func (k *killer) putBack(all []victim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = append(all, k.pending...)
}

// try kills over a connection of its own, and returns those for whom that did not lead to their
// server: there was no connection, it broke, or it led to another one.
func (k *killer) try(ctx context.Context, all []victim) (left []victim) {
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	c, err := k.base.Connect(ctx)
	if err != nil {
		return all
	}
	defer func() { _ = c.Close() }()
	self, err := k.meet(ctx, c, time.Now())
	if err != nil {
		return all
	}
	up, err := uptime(ctx, c, self)
	if err != nil {
		return all
	}
	for _, v := range all {
		switch {
		case v.server != self.server:
			left = append(left, v)
		case up < time.Since(v.since): // another life of the server, whose ids are of others
		case execute(ctx, c, "KILL CONNECTION "+strconv.FormatInt(v.id, 10)) != nil && !valid(c):
			left = append(left, v)
		} // else it is killed, or the server says that it is gone
	}
	return left
}

// uptime says how long the server has been running, which is zero if its ids are not those that
// KILL takes here: a proxy may answer one question itself and pass on another, or KILL itself.
func uptime(ctx context.Context, c driver.Conn, self victim) (time.Duration, error) {
	id, err := ask(ctx, c, "SELECT CONNECTION_ID()")
	if err != nil {
		return 0, err
	}
	status, err := ask(ctx, c, "SHOW GLOBAL STATUS LIKE 'Uptime'")
	if err != nil {
		return 0, err
	}
	if len(id) != 1 || id[0] != strconv.FormatInt(self.id, 10) || len(status) != 2 {
		return 0, nil
	}
	switch err := execute(ctx, c, "KILL CONNECTION "+noConnection); {
	case err == nil: // a proxy takes KILL for its own ids, and says yes to any
		return 0, nil
	case !valid(c):
		return 0, err
	}
	seconds, _ := strconv.ParseInt(status[1], 10, 64)
	return time.Duration(seconds) * time.Second, nil
}

// close waits a moment for what is to be killed.
func (k *killer) close() {
	k.mu.Lock()
	k.closed = true
	running, stop := k.running, k.stop
	k.mu.Unlock()
	if running == nil {
		return
	}
	timer := time.AfterFunc(killGrace, stop)
	defer timer.Stop()
	<-running
}

func valid(c driver.Conn) bool {
	v, ok := c.(driver.Validator)
	return !ok || v.IsValid()
}

var errNoQueries = errors.New("gabionsql: the driver has no queries without arguments")

// ask returns the first row of a query as texts.
func ask(ctx context.Context, c driver.Conn, query string) ([]string, error) {
	q, ok := c.(driver.QueryerContext)
	if !ok {
		return nil, errNoQueries
	}
	rows, err := q.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	values := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(values); err != nil {
		return nil, err
	}
	texts := make([]string, len(values))
	for i, v := range values {
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		texts[i] = fmt.Sprint(v)
	}
	return texts, nil
}

func execute(ctx context.Context, c driver.Conn, text string) error {
	e, ok := c.(driver.ExecerContext)
	if !ok {
		return errNoQueries
	}
	_, err := e.ExecContext(ctx, text, nil)
	return err
}
