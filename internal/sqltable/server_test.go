package sqltable

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestServersThatAreTooOld(t *testing.T) {
	for _, c := range []struct{ dialect, version, says string }{
		{"postgres", "15.18 (Debian 15.18-0+deb12u1)", ""}, {"postgres", "11.0", ""}, {"postgres", "11beta1", ""}, {"postgres", "10.23", "PostgreSQL 10.23"}, {"postgres", "9.6.24", "11.0 is the oldest"},
		{"sqlite", "3.42.0", ""}, {"sqlite", "3.51.0", ""}, {"sqlite", "3.41.2", "SQLite 3.41.2"}, {"sqlite", "3.7.17", "3.42 is the oldest"},
		{"mysql", "8.0.36", ""}, {"mysql", "9.1.0", ""}, {"mysql", "5.7.44-log", "MySQL 5.7.44-log"},
		{"mysql", "10.11.6-MariaDB-0+deb12u1", ""}, {"mysql", "5.5.5-10.6.1-MariaDB", ""}, {"mysql", "10.5.23-MariaDB", "10.6 is the oldest"}, {"mysql", "5.5.5-10.3.39-MariaDB", "MariaDB 5.5.5-10.3.39"},
		{"postgres", "unknown", ""}, {"another", "1.0", ""},
	} {
		err := CheckServer(t.Context(), c.dialect, func(context.Context, string) (string, error) { return c.version, nil })
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.dialect, c.version, err, c.says)
		}
	}
	if err := CheckServer(t.Context(), "mysql", func(context.Context, string) (string, error) { return "", errors.New("away") }); err != nil {
		t.Errorf("a server that does not answer: %v", err)
	}
}
