package outbox

import (
	"context"
	"log/slog"
	"time"
)

// A NoticeKind says what a [Notice] tells. It is meant as the label of a metric:
//
//	leads      the relay has the lease and publishes from now on
//	resigned   it gave the lease back
//	lease_lost another took the lease, the database could not be asked in time, or the publisher
//	           does not return; see Err
//	published  messages were confirmed by the broker: Messages of them
//	failing    a message failed while others were confirmed; it is tried again after Rest
//	parked     a message is given up until an operator retries or discards it; see Err
//	resting    nothing could be published; the relay rests for Rest
//	broken     the database failed; the relay rests for Rest
type NoticeKind string

const (
	noticeLeads     NoticeKind = "leads"
	noticeResigned  NoticeKind = "resigned"
	noticeLost      NoticeKind = "lease_lost"
	noticePublished NoticeKind = "published"
	noticeFailing   NoticeKind = "failing"
	noticeParked    NoticeKind = "parked"
	noticeResting   NoticeKind = "resting"
	noticeBroken    NoticeKind = "broken"
)

// A Notice is something that happened in a relay. It has no payload.
type Notice struct {
	Kind      NoticeKind
	ID        string // of the message, if it is about one
	Topic     string
	Aggregate string
	Attempts  int           // how often the message has failed while others did not
	Messages  int           // with published: how many
	Rest      time.Duration // until the next try
	Err       error
}

// level says how loud a notice is logged.
func (k NoticeKind) level() slog.Level {
	switch k {
	case noticePublished:
		return slog.LevelDebug
	case noticeLeads, noticeResigned:
		return slog.LevelInfo
	case noticeParked:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// logged returns what writes notices to the default logger.
func logged(table string) func(Notice) {
	return func(n Notice) {
		attrs := []slog.Attr{slog.String("outbox", table), slog.String("what", string(n.Kind))}
		if n.ID != "" {
			attrs = append(attrs, slog.String("id", n.ID), slog.String("topic", n.Topic), slog.String("aggregate", n.Aggregate), slog.Int("attempts", n.Attempts))
		}
		if n.Messages > 0 {
			attrs = append(attrs, slog.Int("messages", n.Messages))
		}
		if n.Rest > 0 {
			attrs = append(attrs, slog.Duration("rest", n.Rest))
		}
		if n.Err != nil {
			attrs = append(attrs, slog.Any("error", n.Err))
		}
		slog.LogAttrs(context.Background(), n.Kind.level(), "outbox relay", attrs...)
	}
}
