package gabionsql_test

import "database/sql/driver"

// What database/sql asks of a connection beyond driver.Conn, in all combinations. The
// interfaces that say how statements are sent are one table, all others the other.

type shape struct {
	name string
	of   func(*scriptedConn) driver.Conn
}

var sendShapes = []shape{
	{"nothing", func(c *scriptedConn) driver.Conn {
		return struct{ driver.Conn }{c}
	}},
	{"NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.NamedValueChecker
		}{c, c.checker()}
	}},
	{"Queryer", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Queryer
		}{c, c.queryer()}
	}},
	{"Queryer NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Queryer
			driver.NamedValueChecker
		}{c, c.queryer(), c.checker()}
	}},
	{"QueryerContext", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.QueryerContext
		}{c, c.queryerContext()}
	}},
	{"QueryerContext NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.QueryerContext
			driver.NamedValueChecker
		}{c, c.queryerContext(), c.checker()}
	}},
	{"Execer", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Execer
		}{c, c.execer()}
	}},
	{"Execer NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Execer
			driver.NamedValueChecker
		}{c, c.execer(), c.checker()}
	}},
	{"Execer Queryer", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Execer
			driver.Queryer
		}{c, c.execer(), c.queryer()}
	}},
	{"Execer Queryer NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Execer
			driver.Queryer
			driver.NamedValueChecker
		}{c, c.execer(), c.queryer(), c.checker()}
	}},
	{"Execer QueryerContext", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Execer
			driver.QueryerContext
		}{c, c.execer(), c.queryerContext()}
	}},
	{"Execer QueryerContext NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Execer
			driver.QueryerContext
			driver.NamedValueChecker
		}{c, c.execer(), c.queryerContext(), c.checker()}
	}},
	{"ExecerContext", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ExecerContext
		}{c, c.execerContext()}
	}},
	{"ExecerContext NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ExecerContext
			driver.NamedValueChecker
		}{c, c.execerContext(), c.checker()}
	}},
	{"ExecerContext Queryer", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ExecerContext
			driver.Queryer
		}{c, c.execerContext(), c.queryer()}
	}},
	{"ExecerContext Queryer NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ExecerContext
			driver.Queryer
			driver.NamedValueChecker
		}{c, c.execerContext(), c.queryer(), c.checker()}
	}},
	{"ExecerContext QueryerContext", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ExecerContext
			driver.QueryerContext
		}{c, c.execerContext(), c.queryerContext()}
	}},
	{"ExecerContext QueryerContext NamedValueChecker", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ExecerContext
			driver.QueryerContext
			driver.NamedValueChecker
		}{c, c.execerContext(), c.queryerContext(), c.checker()}
	}},
}

var otherShapes = []shape{
	{"nothing", func(c *scriptedConn) driver.Conn {
		return struct{ driver.Conn }{c}
	}},
	{"Pinger", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
		}{c, c.pinger()}
	}},
	{"ConnPrepareContext", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnPrepareContext
		}{c, c.preparer()}
	}},
	{"Pinger ConnPrepareContext", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnPrepareContext
		}{c, c.pinger(), c.preparer()}
	}},
	{"ConnBeginTx", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnBeginTx
		}{c, c.beginner()}
	}},
	{"Pinger ConnBeginTx", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnBeginTx
		}{c, c.pinger(), c.beginner()}
	}},
	{"ConnPrepareContext ConnBeginTx", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnPrepareContext
			driver.ConnBeginTx
		}{c, c.preparer(), c.beginner()}
	}},
	{"Pinger ConnPrepareContext ConnBeginTx", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnPrepareContext
			driver.ConnBeginTx
		}{c, c.pinger(), c.preparer(), c.beginner()}
	}},
	{"SessionResetter", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.SessionResetter
		}{c, c.resetter()}
	}},
	{"Pinger SessionResetter", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.SessionResetter
		}{c, c.pinger(), c.resetter()}
	}},
	{"ConnPrepareContext SessionResetter", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnPrepareContext
			driver.SessionResetter
		}{c, c.preparer(), c.resetter()}
	}},
	{"Pinger ConnPrepareContext SessionResetter", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnPrepareContext
			driver.SessionResetter
		}{c, c.pinger(), c.preparer(), c.resetter()}
	}},
	{"ConnBeginTx SessionResetter", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnBeginTx
			driver.SessionResetter
		}{c, c.beginner(), c.resetter()}
	}},
	{"Pinger ConnBeginTx SessionResetter", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnBeginTx
			driver.SessionResetter
		}{c, c.pinger(), c.beginner(), c.resetter()}
	}},
	{"ConnPrepareContext ConnBeginTx SessionResetter", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.SessionResetter
		}{c, c.preparer(), c.beginner(), c.resetter()}
	}},
	{"Pinger ConnPrepareContext ConnBeginTx SessionResetter", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.SessionResetter
		}{c, c.pinger(), c.preparer(), c.beginner(), c.resetter()}
	}},
	{"Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Validator
		}{c, c.validator()}
	}},
	{"Pinger Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.Validator
		}{c, c.pinger(), c.validator()}
	}},
	{"ConnPrepareContext Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnPrepareContext
			driver.Validator
		}{c, c.preparer(), c.validator()}
	}},
	{"Pinger ConnPrepareContext Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnPrepareContext
			driver.Validator
		}{c, c.pinger(), c.preparer(), c.validator()}
	}},
	{"ConnBeginTx Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnBeginTx
			driver.Validator
		}{c, c.beginner(), c.validator()}
	}},
	{"Pinger ConnBeginTx Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnBeginTx
			driver.Validator
		}{c, c.pinger(), c.beginner(), c.validator()}
	}},
	{"ConnPrepareContext ConnBeginTx Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.Validator
		}{c, c.preparer(), c.beginner(), c.validator()}
	}},
	{"Pinger ConnPrepareContext ConnBeginTx Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.Validator
		}{c, c.pinger(), c.preparer(), c.beginner(), c.validator()}
	}},
	{"SessionResetter Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.SessionResetter
			driver.Validator
		}{c, c.resetter(), c.validator()}
	}},
	{"Pinger SessionResetter Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.SessionResetter
			driver.Validator
		}{c, c.pinger(), c.resetter(), c.validator()}
	}},
	{"ConnPrepareContext SessionResetter Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnPrepareContext
			driver.SessionResetter
			driver.Validator
		}{c, c.preparer(), c.resetter(), c.validator()}
	}},
	{"Pinger ConnPrepareContext SessionResetter Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnPrepareContext
			driver.SessionResetter
			driver.Validator
		}{c, c.pinger(), c.preparer(), c.resetter(), c.validator()}
	}},
	{"ConnBeginTx SessionResetter Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnBeginTx
			driver.SessionResetter
			driver.Validator
		}{c, c.beginner(), c.resetter(), c.validator()}
	}},
	{"Pinger ConnBeginTx SessionResetter Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnBeginTx
			driver.SessionResetter
			driver.Validator
		}{c, c.pinger(), c.beginner(), c.resetter(), c.validator()}
	}},
	{"ConnPrepareContext ConnBeginTx SessionResetter Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.SessionResetter
			driver.Validator
		}{c, c.preparer(), c.beginner(), c.resetter(), c.validator()}
	}},
	{"Pinger ConnPrepareContext ConnBeginTx SessionResetter Validator", func(c *scriptedConn) driver.Conn {
		return struct {
			driver.Conn
			driver.Pinger
			driver.ConnPrepareContext
			driver.ConnBeginTx
			driver.SessionResetter
			driver.Validator
		}{c, c.pinger(), c.preparer(), c.beginner(), c.resetter(), c.validator()}
	}},
}
