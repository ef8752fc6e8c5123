package sqlletters

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
)

// A storedFailure is a failure as the tables have it: JSON that SQL can look into.
type storedFailure struct {
	At      int64  `json:"at,omitempty"` // nanoseconds since 1970
	Took    int64  `json:"took,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Class   string `json:"class,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func writeFailures(all []deadletter.Failure) string {
	if len(all) == 0 {
		return ""
	}
	stored := make([]storedFailure, len(all))
	for i, f := range all {
		stored[i] = storedFailure{deadletter.Nanos(f.At), int64(f.Took), f.Attempt, f.Class, f.Reason, f.Message}
	}
	text, _ := json.Marshal(stored) // numbers and valid text
	return string(text)
}

func readFailures(text []byte) (all []deadletter.Failure, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	var stored []storedFailure
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("the failures are damaged: %w", err)
	}
	for _, f := range stored {
		all = append(all, deadletter.Failure{At: deadletter.Time(f.At), Took: time.Duration(f.Took), Attempt: f.Attempt, Class: f.Class, Reason: f.Reason, Message: f.Message})
	}
	return all, nil
}

// A storedHeader has its name and value as text where they are, and else as bytes.
type storedHeader struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	NameRaw  []byte `json:"name_base64,omitempty"`
	ValueRaw []byte `json:"value_base64,omitempty"`
}

func writeHeaders(all message.Headers) string {
	if len(all) == 0 {
		return ""
	}
	stored := make([]storedHeader, len(all))
	for i, h := range all {
		if utf8.ValidString(h.Name) {
			stored[i].Name = h.Name
		} else {
			stored[i].NameRaw = []byte(h.Name)
		}
		if utf8.ValidString(h.Value) {
			stored[i].Value = h.Value
		} else {
			stored[i].ValueRaw = []byte(h.Value)
		}
	}
	text, _ := json.Marshal(stored)
	return string(text)
}

func readHeaders(text []byte) (all message.Headers, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	var stored []storedHeader
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("the headers are damaged: %w", err)
	}
	for _, h := range stored {
		all = append(all, message.Header{Name: h.Name + string(h.NameRaw), Value: h.Value + string(h.ValueRaw)})
	}
	return all, nil
}

// A scanner is a row.
type scanner interface{ Scan(...any) error }

// readLetter reads the columns, and whole says that failures and payload follow.
func readLetter(from scanner, whole bool) (deadletter.Stored, error) {
	var r deadletter.Stored
	var id, drive string
	var kept, since, until, first, last int64
	var newest, headers, failures, payload []byte
	to := []any{
		&id, &r.Group, &r.Source, &r.Reason, &r.Letter.Order, &r.State, &kept, &since, &r.Token, &until, &r.Redriven, &r.Resolved, &drive,
		&r.Attempts, &first, &last, &r.Key, &r.Position, &r.By, &r.Note, &newest, &headers,
	}
	if whole {
		to = append(to, &failures, &payload)
	}
	if err := from.Scan(to...); err != nil {
		return deadletter.Stored{}, err
	}
	r.ID, r.Drive = deadletter.ID(id), drive
	r.Kept, r.Since, r.Until = deadletter.Time(kept), deadletter.Time(since), deadletter.Time(until)
	r.First, r.Last = deadletter.Time(first), deadletter.Time(last)
	if !whole {
		failures = newest
	} else if len(payload) > 0 {
		r.Payload = payload
	}
	var err error
	if r.Headers, err = readHeaders(headers); err == nil {
		r.Failures, err = readFailures(failures)
	}
	if err != nil {
		return deadletter.Stored{}, fmt.Errorf("letter %s: %w", r.ID, err)
	}
	return r, nil
}

// newest is the last failure, written.
func newest(r *deadletter.Stored) string {
	return writeFailures(r.Failures[max(0, len(r.Failures)-1):])
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// insertValues are those of the statement that inserts.
func (d Dialect) insertValues(r *deadletter.Stored) []any {
	return []any{
		d.id(r.ID), d.str(r.Group), d.str(r.Source), d.str(r.Reason), d.str(r.Letter.Order), int(r.State),
		deadletter.Nanos(r.Kept), deadletter.Nanos(r.Since), r.Token, deadletter.Nanos(r.Until), r.Redriven, int(r.Resolved), d.str(r.Drive),
		r.Attempts, deadletter.Nanos(r.First), deadletter.Nanos(r.Last), d.str(r.Key), d.str(r.Position), d.str(r.By), d.str(r.Note),
		d.str(newest(r)), d.str(writeHeaders(r.Headers)), d.str(writeFailures(r.Failures)), sqlkit.NotNil(r.Payload), number(r.Held()), r.Bytes(),
	}
}

// updateValues are those of the statement that updates: what may change while the message
// stays the same.
func (d Dialect) updateValues(r *deadletter.Stored) []any {
	return []any{
		d.str(r.Reason), int(r.State), deadletter.Nanos(r.Kept), deadletter.Nanos(r.Since), r.Token, deadletter.Nanos(r.Until), r.Redriven, int(r.Resolved), d.str(r.Drive),
		r.Attempts, deadletter.Nanos(r.First), deadletter.Nanos(r.Last), d.str(r.By), d.str(r.Note), d.str(newest(r)), d.str(writeFailures(r.Failures)),
		number(r.Held()), r.Bytes(), d.id(r.ID),
	}
}

// A storedQuery is what a redrive picks, as the table has it. Texts may have any bytes.
type storedQuery struct {
	Source []byte          `json:"source,omitempty"`
	Reason []byte          `json:"reason,omitempty"`
	IDs    []deadletter.ID `json:"ids,omitempty"`
	Prefix string          `json:"prefix,omitempty"`
	Before int64           `json:"before"`
	After  int64           `json:"after"`
}

func writeQuery(q *deadletter.Query) string {
	text, _ := json.Marshal(storedQuery{[]byte(q.Source), []byte(q.Reason), q.IDs, q.Prefix, nanos(q.Before), nanos(q.After)})
	return string(text)
}

func readCourse(from scanner) (c deadletter.Course, err error) {
	var made, next, passed, seen int64
	var query []byte
	err = from.Scan(&c.ID, &c.Group, &query, &c.Rate, &c.By, &made, &c.State, &c.Why, &c.Total, &c.Drive.Done, &c.Failed, &next, &passed, &c.Outcomes, &c.Holder, &seen)
	if err != nil {
		return deadletter.Course{}, err
	}
	var q storedQuery
	if err := json.Unmarshal(query, &q); err != nil {
		return deadletter.Course{}, fmt.Errorf("the redrive of %q is damaged: %w", c.Group, err)
	}
	c.Query = deadletter.Query{
		Group: c.Group, Source: string(q.Source), Reason: string(q.Reason), IDs: q.IDs, Prefix: q.Prefix,
		Before: time.Unix(0, q.Before), After: time.Unix(0, q.After),
	}
	c.Made, c.Next, c.After, c.Seen = deadletter.Time(made), deadletter.Time(next), deadletter.Time(passed), deadletter.Time(seen)
	return c.Stands(), nil
}

func (d Dialect) courseValues(c *deadletter.Course) []any {
	return []any{
		d.str(c.ID), d.str(c.Group), d.str(writeQuery(&c.Query)), c.Rate, d.str(c.By), deadletter.Nanos(c.Made), int(c.State), d.str(c.Why), c.Total, c.Drive.Done, c.Failed,
		deadletter.Nanos(c.Next), deadletter.Nanos(c.After), int64(c.Outcomes), int64(c.Holder), deadletter.Nanos(c.Seen),
	}
}

func (d Dialect) courseUpdate(c *deadletter.Course) []any {
	return []any{
		int(c.State), d.str(c.Why), c.Drive.Done, c.Failed,
		deadletter.Nanos(c.Next), deadletter.Nanos(c.After), int64(c.Outcomes), int64(c.Holder), deadletter.Nanos(c.Seen), d.str(c.ID),
	}
}
