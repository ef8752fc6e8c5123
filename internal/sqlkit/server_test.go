package sqlkit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// A server says its version, and what it answers to statements, one after the other.
type server struct {
	version string
	away    error
	answers []error
	made    []string
}

func (s *server) Ask(context.Context, string) (string, error) { return s.version, s.away }

func (s *server) Exec(_ context.Context, text string) (err error) {
	s.made = append(s.made, text)
	if len(s.answers) > 0 {
		err, s.answers = s.answers[0], s.answers[1:]
	}
	return err
}

func TestServersThatAreTooOld(t *testing.T) {
	for _, c := range []struct{ dialect, version, says string }{
		{"postgres", "15.18 (Debian 15.18-0+deb12u1)", ""}, {"postgres", "11.0", ""}, {"postgres", "11beta1", ""}, {"postgres", "10.23", "PostgreSQL 10.23"}, {"postgres", "9.6.24", "11.0 is the oldest"},
		{"pgx", "13.1", ""}, {"pgx", "12.22", "13.0 is the oldest"},
		{"sqlite", "3.42.0", ""}, {"sqlite", "3.51.0", ""}, {"sqlite", "3.41.2", "SQLite 3.41.2"}, {"sqlite", "3.7.17", "3.42 is the oldest"},
		{"mysql", "8.0.36", ""}, {"mysql", "9.1.0", ""}, {"mysql", "5.7.44-log", "MySQL 5.7.44-log"},
		{"mysql", "10.11.6-MariaDB-0+deb12u1", ""}, {"mysql", "5.5.5-10.6.1-MariaDB", ""}, {"mysql", "10.5.23-MariaDB", "10.6 is the oldest"}, {"mysql", "5.5.5-10.3.39-MariaDB", "MariaDB 5.5.5-10.3.39"},
		{"postgres", "unknown", ""}, {"another", "1.0", ""},
	} {
		s := &server{version: c.version}
		err := Dialect{Name: c.dialect}.Create(t.Context(), s, "a table")
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || (err == nil) != (len(s.made) == 1) {
			t.Errorf("%s %s: %v, want %q; made %q", c.dialect, c.version, err, c.says, s.made)
		}
	}
	if err := MySQL.Create(t.Context(), &server{away: errors.New("away")}); err != nil {
		t.Errorf("a server that does not answer: %v", err)
	}
}

// state is an error of PostgreSQL.
type state string

func (s state) Error() string    { return string(s) }
func (s state) SQLState() string { return string(s) }

func TestTablesAreMadeAgainAfterARace(t *testing.T) {
	no := errors.New("no")
	for _, c := range []struct {
		answers []error
		made    []string
		err     error
	}{
		{nil, []string{"table", "index"}, nil},
		{[]error{state("23505"), state("42P07"), nil, state("42710"), state("40P01")}, []string{"table", "table", "table", "index", "index", "index"}, nil},
		{[]error{no}, []string{"table"}, no},
		{[]error{state("42501")}, []string{"table"}, state("42501")},
		{slices.Repeat([]error{state("42P07")}, 20), slices.Repeat([]string{"table"}, 10), state("42P07")},
	} {
		s := &server{version: "15.0", answers: c.answers}
		if err := Postgres.Create(t.Context(), s, "table", "", "index"); err != c.err || !slices.Equal(s.made, c.made) {
			t.Errorf("%v: made %q, %v", c.answers, s.made, err)
		}
	}
}
