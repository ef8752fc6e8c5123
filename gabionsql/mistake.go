package gabionsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// mistake is an error of what the program handed over, such as an argument that can't be
// encoded: it says nothing about the database.
type mistake struct{ error }

// Unwrap returns what the driver said.
func (m mistake) Unwrap() error { return m.error }

// Outcome says that the request is wrong. The driver may have sent a part of it.
func (mistake) Outcome() policy.Outcome {
	return policy.Outcome{Class: policy.ClassClient, Effect: policy.UnknownEffect}
}

// mistaken reports whether an error is one of the program's. Whatever breaks between a driver
// and its server breaks the connection, and what servers say has a type of the driver's. So it
// is a text beside a connection that its driver calls good.
func (c *conn) mistaken(err error) bool {
	if !isText(err) || c.of.seen.Means(err).Class != policy.ClassUnclassified {
		return false
	}
	return err == errNamed || isGood(c.base)
}

// isGood reports whether a driver says that its connection can be used again. pgx's has no
// driver.Validator, and says so by Conn().IsClosed().
func isGood(base driver.Conn) bool {
	if v, ok := base.(driver.Validator); ok {
		return v.IsValid()
	}
	v := reflect.ValueOf(base)
	if v.Kind() != reflect.Pointer || v.IsNil() || !strings.Contains(v.Type().Elem().PkgPath(), "github.com/jackc/pgx/") {
		return false
	}
	inner, ok := called(v.MethodByName("Conn"))
	if !ok || inner.Kind() != reflect.Pointer || inner.IsNil() {
		return false
	}
	closed, ok := called(inner.MethodByName("IsClosed"))
	return ok && closed.Kind() == reflect.Bool && !closed.Bool()
}

// called is the result of a method without arguments that has one.
func called(method reflect.Value) (result reflect.Value, ok bool) {
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return result, false
	}
	return method.Call(nil)[0], true
}

// isText reports whether an error holds nothing but texts.
func isText(err error) bool {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !slices.Contains([]string{"errors", "fmt", "strconv"}, t.PkgPath()) {
		return false
	}
	switch x := err.(type) { //nolint:errorlint // this is the walk
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(x.Unwrap(), func(err error) bool { return !isText(err) })
	case interface{ Unwrap() error }:
		return x.Unwrap() == nil || isText(x.Unwrap())
	}
	return true
}

// partly looks at the error of a statement that is part of an attempt, and tells a call of
// this package whose mistake it is.
func (c *conn) partly(ctx context.Context, err error) {
	if err == nil {
		return
	}
	c.learn(err)
	if !c.mistaken(err) {
		return
	}
	if r, ok := ctx.Value(reachKey{}).(*reach); ok {
		r.mistaken.Store(&mistake{err})
	}
}

// unconverted begins the text of database/sql's errors for arguments that it can't convert,
// which have no type. The driver is not asked then.
const unconverted = "sql: converting argument "

// meant returns err as what it means to the dependency.
func (r *reach) meant(err error) error {
	if m := r.mistaken.Load(); m != nil && errors.Is(err, m.error) || strings.HasPrefix(err.Error(), unconverted) {
		return mistake{err}
	}
	return err
}
